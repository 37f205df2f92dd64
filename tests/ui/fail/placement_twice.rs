use gpucache::prelude::*;

#[cache_scope(step, placement = "host", placement = "auto")]
fn step() {}

fn main() {
    step();
}
