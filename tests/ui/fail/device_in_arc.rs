use gpucache::prelude::*;

fn main() {
    let host = std::sync::Arc::new(Host::new());
    let _ = Array::full(&host, 4, 1.0f32);
}
