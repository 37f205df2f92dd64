use gpucache::prelude::*;

#[cache_scope(step)]
fn step(number: i32) -> i32 {
    number * 2;
}

fn main() {
    step(1);
}
