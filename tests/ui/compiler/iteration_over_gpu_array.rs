use gpucache::prelude::*;

fn sum(x: &Array<f32, Cuda>) {
    for _ in x {}
}

fn main() {
    let _ = sum;
}
