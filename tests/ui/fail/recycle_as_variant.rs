use gpucache::prelude::*;

#[cache_scope(step, recycle = gpucache::Recycle::Keyed)]
fn step() {}

fn main() {
    step();
}
