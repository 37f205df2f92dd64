use gpucache::prelude::*;

#[cache_scope(step)]
trait Step {
    fn step(&self) {}
}

fn main() {}
