use gpucache::prelude::*;

#[cache_scope(batches)]
async fn batches(host: &Host) -> impl Iterator<Item = gpucache::Result<Array<f32, Host>>> {
    (0..4).map(move |batch| Array::full(host, 4, batch as f32))
}

fn main() {
    drop(batches(&Host::new()));
}
