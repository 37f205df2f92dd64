use gpucache::prelude::*;

#[cache_scope(scaled)]
fn scaled(host: Host) -> Box<dyn FnOnce(f32) -> f32 + Send> {
    let factors = Array::full(&host, 4, 2.0f32);
    Box::new(move |by| factors.map_or(0.0, |factors| factors[0] * by))
}

fn main() {
    scaled(Host::new())(2.0);
}
