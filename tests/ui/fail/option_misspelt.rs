use gpucache::prelude::*;

#[cache_scope(step, recyle = "keyed")]
fn step() {}

fn main() {
    step();
}
