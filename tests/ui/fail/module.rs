use gpucache::prelude::*;

#[cache_scope(steps)]
mod steps {
    pub fn step() {}
}

fn main() {
    steps::step();
}
