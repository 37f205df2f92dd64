#![deny(unused)]
use gpucache::prelude::*;

#[cache_scope(step)]
async fn step((left, mut right): (u32, u32)) -> u32 {
    left + right
}

fn main() {
    drop(step((1, 2)));
}
