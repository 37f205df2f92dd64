use gpucache::prelude::*;

#[cache_scope(step)]
fn step(number: i32) -> u64 {
    let doubled = number * 2;
    doubled
}

fn main() {
    step(1);
}
