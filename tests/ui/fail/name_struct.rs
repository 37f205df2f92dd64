use gpucache::prelude::*;

struct Layer {
    index: usize,
}

impl Layer {
    #[cache_scope(name = self)]
    fn forward(&self) -> usize {
        self.index
    }
}

fn main() {
    Layer { index: 1 }.forward();
}
