fn main() {
    gpucache::cache_scope!(step, {
        drop(_guard);
    });
}
