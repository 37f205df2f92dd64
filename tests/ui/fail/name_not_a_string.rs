use gpucache::prelude::*;

#[cache_scope(name = index + 1)]
fn step(index: usize) -> usize {
    index
}

#[cache_scope(name = index)]
async fn step_async(index: usize) -> usize {
    index
}

fn main() {
    step(1);
    drop(step_async(1));
}
