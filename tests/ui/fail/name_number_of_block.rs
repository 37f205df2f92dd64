fn main() {
    gpucache::cache_scope!(name = 1, {});
}
