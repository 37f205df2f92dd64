use gpucache::prelude::*;

fn main() {
    let host = Host::new();
    let rows = 2u32;
    let _ = Array::<f32, _>::zeros(&host, rows);
}
