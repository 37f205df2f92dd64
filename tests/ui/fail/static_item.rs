use gpucache::prelude::*;

#[cache_scope(limit)]
static LIMIT: usize = 4;

fn main() {
    assert_eq!(LIMIT, 4);
}
