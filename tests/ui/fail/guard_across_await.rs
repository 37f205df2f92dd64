async fn step() -> usize {
    gpucache::cache_scope!(step, {
        std::future::ready(()).await;
        1
    })
}

fn spawn(_: impl Future + Send) {}

fn main() {
    spawn(step());
}
