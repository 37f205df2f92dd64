use gpucache::cudarc::driver::CudaStream;
use gpucache::prelude::*;
use std::sync::Arc;

fn ones(stream: Arc<CudaStream>) {
    let _ = Array::full(&stream, 4, 1.0f32);
}

fn main() {
    let _ = ones;
}
