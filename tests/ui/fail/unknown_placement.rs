use gpucache::prelude::*;

#[cache_scope(step, placement = "pinned")]
fn step() {}

fn main() {
    step();
}
