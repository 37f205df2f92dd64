use gpucache::prelude::*;

struct Loader(Host);

impl Loader {
    #[cache_scope(batches)]
    fn batches(&self) -> Box<dyn Iterator<Item = gpucache::Result<Array<f32, Host>>> + '_> {
        Box::new((0..4).map(|batch| Array::full(&self.0, 4, batch as f32)))
    }
}

fn main() {
    assert_eq!(Loader(Host::new()).batches().count(), 4);
}
