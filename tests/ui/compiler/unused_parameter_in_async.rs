#![deny(unused)]
use gpucache::prelude::*;

#[cache_scope(step)]
async fn step((left, right): (u32, u32)) -> u32 {
    left
}

fn main() {
    drop(step((1, 2)));
}
