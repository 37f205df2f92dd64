fn main() {
    gpucache::invalidate(1);
}
