use gpucache::prelude::*;

fn main() {
    let _ = Host::new().zeros(4).map(drop);
}
