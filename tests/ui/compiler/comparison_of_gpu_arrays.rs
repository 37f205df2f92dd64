use gpucache::prelude::*;

fn same(x: &Array<f32, Cuda>, y: &Array<f32, Cuda>) {
    assert!(x == y);
}

fn main() {
    let _ = same;
}
