use gpucache::prelude::*;

fn main() {
    let host = Host::new();
    let _ = Array::full(&host, 4, String::new());
}
