use gpucache::prelude::*;

#[cache_scope(step, name = "train")]
fn step() {}

fn main() {
    step();
}
