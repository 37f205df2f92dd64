use gpucache::prelude::*;

#[cache_scope(batches)]
fn batches(host: &Host) -> impl Iterator<Item = gpucache::Result<Array<f32, Host>>> {
    (0..4).map(move |batch| Array::full(host, 4, batch as f32))
}

fn main() {
    assert_eq!(batches(&Host::new()).count(), 4);
}
