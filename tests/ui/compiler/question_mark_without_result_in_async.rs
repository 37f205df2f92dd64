use gpucache::prelude::*;

#[cache_scope(step)]
async fn step(text: &str) {
    text.parse::<i32>()?;
}

fn main() {
    drop(step("1"));
}
