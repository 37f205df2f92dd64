use gpucache::prelude::*;

#[cache_scope(step, recycle = "keyd")]
fn step() {}

fn main() {
    step();
}
