use gpucache::prelude::*;

#[cache_scope(weights)]
type Weights = Array<f32, Host>;

fn main() {
    let _: Option<Weights> = None;
}
