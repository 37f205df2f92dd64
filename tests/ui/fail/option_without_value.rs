use gpucache::prelude::*;

#[cache_scope(step, keyed)]
fn step() {}

fn main() {
    step();
}
