use gpucache::prelude::*;

#[cache_scope(step, recycle = "off"; keyed)]
fn step() {}

fn main() {
    step();
}
