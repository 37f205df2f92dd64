use gpucache::prelude::*;

fn main() {
    let host = Host::new();
    let array = Array::full(&host, 4, 1.0f32);
    assert_eq!(array.len(), 4);
}
