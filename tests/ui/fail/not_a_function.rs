use gpucache::prelude::*;

#[cache_scope(model)]
pub struct Model {
    weights: Vec<f32>,
}

fn main() {
    assert!(Model { weights: Vec::new() }.weights.is_empty());
}
