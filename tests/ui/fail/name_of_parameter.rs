use gpucache::prelude::*;

#[cache_scope(name)]
fn layer(name: &str) -> usize {
    name.len()
}

pub(crate) fn main() {
    layer("layer1");
}
