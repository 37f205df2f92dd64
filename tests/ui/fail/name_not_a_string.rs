use gpucache::prelude::*;

#[cache_scope(name = index + 1)]
fn step(index: usize) -> usize {
    index
}

fn main() {
    step(1);
}
