#![deny(unused)]
use gpucache::prelude::*;

#[cache_scope(name = format!("layer {index}"))]
async fn step(index: u32, layer: u32) {}

fn main() {
    drop(step(1, 2));
}
