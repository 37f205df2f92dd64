use gpucache::prelude::*;

fn main() {
    let host = Host::new();
    let (rows, columns) = (2i64, 3i64);
    let _ = Array::full(&host, [rows, columns], 1.0f32);
}
