async fn step() {
    gpucache::cache_scope!(name = format!("layer{}", 1), {
        for _ in 0..2 {
            let _ = [std::future::ready(()).await];
        }
    });
}

fn main() {
    drop(step());
}
