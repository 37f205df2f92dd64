use gpucache::prelude::*;

fn main() {
    let host = Host::new();
    let _ = Array::<f32, _>::zeros(&host, (2, 3));
}
