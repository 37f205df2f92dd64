use gpucache::prelude::*;

#[cache_scope(model::step)]
fn step() {}

fn main() {
    step();
}
