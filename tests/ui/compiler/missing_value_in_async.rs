use gpucache::prelude::*;

#[cache_scope(step)]
async fn step(number: i32) -> i32 {
    number * 2;
}

fn main() {
    drop(step(1));
}
