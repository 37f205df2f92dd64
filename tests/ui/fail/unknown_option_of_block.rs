fn main() {
    let total = 1;
    let sum: i32 = gpucache::cache_scope!(step, depth = 4, { total + 1 });
    assert_eq!(sum, 2);
}
