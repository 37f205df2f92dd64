use gpucache::prelude::*;

#[cache_scope(step)]
fn step(text: &str) -> i32 {
    text.parse::<i32>()?
}

fn main() {
    step("1");
}
