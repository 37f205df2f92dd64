use gpucache::prelude::*;

#[cache_scope(name)]
fn layer((name, index): (&str, usize)) -> usize {
    name.len() + index
}

pub(crate) fn main() {
    layer(("layer", 1));
}
