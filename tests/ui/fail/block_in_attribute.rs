use gpucache::prelude::*;

#[cache_scope(step, {})]
fn step() {}

fn main() {
    step();
}
