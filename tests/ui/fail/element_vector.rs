use gpucache::prelude::*;

fn main() {
    let host = Host::new();
    let _ = Array::from_slice(&host, 2, &[vec![1.0f32], vec![2.0f32]]);
}
