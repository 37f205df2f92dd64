fn main() {
    gpucache::cache_scope!(step);
}
