use gpucache::prelude::*;

fn main() {
    let host = Host::new();
    let _ = Array::full(&host, "2x3", 1.0f32);
}
