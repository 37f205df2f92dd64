use gpucache::prelude::*;

#[cache_scope(step)]
async fn step(text: &str) -> bool {
    if text.is_empty() {
        return text.len();
    }
    true
}

fn main() {
    drop(step("1"));
}
