use gpucache::prelude::*;

#[cache_scope(step, recycle = "off", recycle = "keyed")]
fn step() {}

fn main() {
    step();
}
