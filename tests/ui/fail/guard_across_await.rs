async fn step() -> usize {
    gpucache::cache_scope!(step, {
        std::future::ready(()).await;
        1
    })
}

fn main() {
    drop(step());
}
