use gpucache::prelude::*;

#[cache_scope(step, crate = "gpucache")]
fn step() {}

fn main() {
    step();
}
