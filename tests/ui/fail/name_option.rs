fn main() {
    let name = std::env::args().next();
    gpucache::cache_scope!(name = name, {});
}
