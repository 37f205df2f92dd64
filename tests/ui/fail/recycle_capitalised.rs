use gpucache::prelude::*;

#[cache_scope(step, recycle = "Keyed")]
fn step() {}

fn main() {
    step();
}
