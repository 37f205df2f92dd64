use gpucache::prelude::*;

trait Step {
    #[cache_scope(step)]
    async fn step(&self) -> usize;
}

fn main() {}
