use gpucache::prelude::*;

#[cache_scope(self::model::step)]
fn step() {}

fn main() {
    step();
}
