use gpucache::cache_scope;

pub(crate) fn main() {
    let name = format!("layer{}", 1);
    for _ in 0..2 {
        cache_scope!(name, { println!("layer") });
    }
}
