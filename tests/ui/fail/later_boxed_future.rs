use gpucache::prelude::*;

use std::pin::Pin;

#[cache_scope(step)]
fn step(host: Host) -> Pin<Box<dyn Future<Output = usize> + Send>> {
    let future = async move { Array::full(&host, 4, 1.0f32).map_or(0, |array| array.len()) };
    Box::pin(future)
}

fn main() {
    drop(step(Host::new()));
}
