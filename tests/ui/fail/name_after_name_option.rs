use gpucache::prelude::*;

#[cache_scope(name = "step", train)]
fn step() {}

fn main() {
    step();
}
