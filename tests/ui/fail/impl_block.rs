use gpucache::prelude::*;

struct Model;

#[cache_scope(model)]
impl Model {
    fn step(&self) {}
}

fn main() {
    Model.step();
}
