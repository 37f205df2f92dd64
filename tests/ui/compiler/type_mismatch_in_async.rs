use gpucache::prelude::*;

#[cache_scope(step)]
async fn step(text: &str) -> bool {
    text.len()
}

fn main() {
    drop(step("1"));
}
