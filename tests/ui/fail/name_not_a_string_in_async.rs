use gpucache::prelude::*;

#[cache_scope(name = index)]
async fn step(index: usize) -> usize {
    index
}

fn main() {
    drop(step(1));
}
