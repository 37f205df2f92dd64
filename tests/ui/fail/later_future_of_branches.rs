use gpucache::prelude::*;

use std::pin::Pin;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[cache_scope(step)]
fn step(host: &Host, len: usize) -> BoxFuture<'_, usize> {
    if len == 0 {
        Box::pin(std::future::ready(0))
    } else {
        Box::pin(async move { Array::full(host, len, 1.0f32).map_or(0, |array| array.len()) })
    }
}

fn main() {
    drop(step(&Host::new(), 1));
}
