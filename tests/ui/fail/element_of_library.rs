use gpucache::prelude::*;
use std::time::Duration;

fn main() {
    let _ = Host::new().zeros::<Duration>(8);
}
