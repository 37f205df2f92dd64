use gpucache::prelude::*;

fn main() {
    let stream = Host::new_stream();
    let _ = Array::full(&stream, 4, 1.0f32);
}
