use gpucache::prelude::*;

#[cache_scope(step, placement = gpucache::Placement::Host)]
fn step() {}

fn main() {
    step();
}
