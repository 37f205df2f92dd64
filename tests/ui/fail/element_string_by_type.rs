use gpucache::prelude::*;

fn main() {
    let host = Host::new();
    let _: gpucache::Result<Array<String, Host>> = Array::zeros(&host, 4);
}
