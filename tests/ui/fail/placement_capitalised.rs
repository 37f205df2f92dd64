use gpucache::prelude::*;

#[cache_scope(step, placement = "Host")]
fn step() {}

fn main() {
    step();
}
