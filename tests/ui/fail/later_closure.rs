use gpucache::prelude::*;

#[cache_scope(scaled)]
fn scaled(host: Host) -> impl Fn(f32) -> gpucache::Result<Array<f32, Host>> {
    move |by| Array::full(&host, 4, by)
}

fn main() {
    let _ = scaled(Host::new())(2.0);
}
