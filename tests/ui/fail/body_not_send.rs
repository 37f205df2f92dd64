use gpucache::prelude::*;
use std::rc::Rc;

#[cache_scope(step)]
async fn step() -> usize {
    let shared = Rc::new(1);
    std::future::ready(()).await;
    *shared
}

fn spawn(_: impl Future + Send) {}

fn main() {
    spawn(step());
}
