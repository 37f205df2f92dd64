use gpucache::prelude::*;

#[cache_scope(step, recycled = "off")]
fn step() {}

fn main() {
    step();
}
