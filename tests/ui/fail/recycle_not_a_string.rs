use gpucache::prelude::*;

#[cache_scope(step, recycle = keyed)]
fn step() {}

fn main() {
    step();
}
