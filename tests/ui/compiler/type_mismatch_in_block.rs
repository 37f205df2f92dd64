fn main() {
    let sum: u64 = gpucache::cache_scope!(step, {
        let one = 1_i32;
        one + 1
    });
    assert_eq!(sum, 2);
}
