fn main() {
    gpucache::cache_scope!(step, limit = "180%", {});
}
