use gpucache::prelude::*;

fn main() {
    let host = Host::new();
    let _ = host.zeros::<Option<f32>>(4);
}
