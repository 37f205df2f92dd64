use gpucache::prelude::*;

#[cache_scope(step)]
fn step(text: &str) -> i32 {
    text.parse::<i32>()?
}

#[cache_scope(step)]
async fn step_async(text: &str) {
    text.parse::<i32>()?;
}

fn main() {
    step("1");
    drop(step_async("1"));
}
