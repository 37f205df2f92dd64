use gpucache::prelude::*;

fn main() {
    let host = Host::new();
    let _ = host.zeros::<f32>([[2, 3]]);
}
