async fn load() {
    gpucache::uncached!({
        std::future::ready(()).await;
    });
}

fn main() {
    drop(load());
}
