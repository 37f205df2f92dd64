use gpucache::prelude::*;

async fn work(host: Host) -> usize {
    Array::full(&host, 4, 1.0f32).map_or(0, |array| array.len())
}

#[cache_scope(step)]
fn step(host: Host) -> impl Future<Output = usize> {
    work(host)
}

fn main() {
    drop(step(Host::new()));
}
