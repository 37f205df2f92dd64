use gpucache::prelude::*;

#[cache_scope(step)]
fn step(number: i32) -> i32 {
    number * 2;
}

#[cache_scope(step)]
async fn step_async(number: i32) -> i32 {
    number * 2;
}

fn main() {
    step(1);
    drop(step_async(1));
}
