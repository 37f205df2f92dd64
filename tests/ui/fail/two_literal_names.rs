use gpucache::prelude::*;

#[cache_scope("step", "train")]
fn step() {}

fn main() {
    step();
}
