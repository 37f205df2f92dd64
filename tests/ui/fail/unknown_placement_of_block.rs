fn main() {
    let sum: i32 = gpucache::cache_scope!(step, placement = "disk", { 1 + 1 });
    assert_eq!(sum, 2);
}
