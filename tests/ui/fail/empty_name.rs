use gpucache::prelude::*;

#[cache_scope("")]
fn step() {}

fn main() {
    step();
}
