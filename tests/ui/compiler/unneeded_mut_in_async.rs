#![deny(unused)]
use gpucache::prelude::*;

#[cache_scope(step)]
async fn step(mut unchanged: u32) -> u32 {
    unchanged
}

fn main() {
    drop(step(1));
}
