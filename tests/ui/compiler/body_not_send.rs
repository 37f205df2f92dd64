use gpucache::prelude::*;
use std::rc::Rc;

#[cache_scope(step)]
async fn step() -> usize {
    let shared = Rc::new(1);
    std::future::ready(()).await;
    *shared
}

fn main() {
    let _: Box<dyn Send> = Box::new(step());
}
