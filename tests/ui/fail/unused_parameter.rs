#![deny(warnings)]
use gpucache::prelude::*;

#[cache_scope(step)]
fn step(parameter: u32) {}

#[cache_scope(step)]
async fn step_async((left, mut right): (u32, u32), mut unchanged: u32) -> u32 {
    left + unchanged
}

#[cache_scope(name = format!("layer {index}"))]
async fn step_named(index: u32, layer: u32) {}

fn main() {
    step(1);
    drop(step_named(1, 2));
    drop(step_async((1, 2), 3));
}
