use gpucache::prelude::*;

fn first(x: &Array<f32, Cuda>) {
    assert_eq!(x[0], 1.0);
}

fn main() {
    let _ = first;
}
