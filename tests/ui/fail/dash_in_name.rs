use gpucache::prelude::*;

#[cache_scope(train-step)]
fn step() {}

fn main() {
    step();
}
