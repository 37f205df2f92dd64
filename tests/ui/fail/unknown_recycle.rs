use gpucache::prelude::*;

#[cache_scope(step, recycle = "always")]
fn step() {}

fn main() {
    step();
}
