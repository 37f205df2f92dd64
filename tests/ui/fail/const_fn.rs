use gpucache::prelude::*;

#[cache_scope(table)]
const fn table(index: usize) -> usize {
    index * 2
}

const TWO: usize = table(1);

fn main() {
    assert_eq!(TWO, 2);
}
