use gpucache::prelude::*;

#[cache_scope(step, limit = "20 gigs")]
fn step() {}

fn main() {
    step();
}
