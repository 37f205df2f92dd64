use gpucache::prelude::*;

#[cache_scope(recycle = "off")]
fn step() {}

fn main() {
    step();
}
