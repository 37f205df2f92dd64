fn main() {
    gpucache::uncached!(load, { 1 });
}
