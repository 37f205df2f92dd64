use gpucache::prelude::*;

#[cache_scope("step" recycle = "off")]
fn step() {}

fn main() {
    step();
}
