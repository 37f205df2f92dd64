use gpucache::prelude::*;

fn main() {
    let _ = Array::<f32, _>::zeros(&"cuda:0", 4);
}
