use gpucache::prelude::*;

#[cache_scope(forward, backward)]
fn step() {}

fn main() {
    step();
}
