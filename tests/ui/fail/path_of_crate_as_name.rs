use gpucache::prelude::*;

#[cache_scope(crate::step)]
fn step() {}

fn main() {
    step();
}
