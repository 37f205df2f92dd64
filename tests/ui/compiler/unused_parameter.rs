#![deny(unused)]
use gpucache::prelude::*;

#[cache_scope(step)]
fn step(parameter: u32) {}

fn main() {
    step(1);
}
