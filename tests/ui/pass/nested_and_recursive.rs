//! Scopes inside scopes, of other names and of their own.
#![deny(warnings)]
use gpucache::prelude::*;

#[cache_scope(outer)]
fn outer(host: &Host) -> f32 {
    let before = Array::full(host, 2, 1.0_f32).unwrap();
    let inner = inner(host);
    let after = Array::full(host, 2, 4.0_f32).unwrap();
    before[0] + inner + after[0]
}

#[cache_scope(inner)]
fn inner(host: &Host) -> f32 {
    Array::full(host, 2, 2.0_f32).unwrap()[1]
}

#[cache_scope(factorial)]
fn factorial(host: &Host, number: u64) -> u64 {
    if number < 2 {
        return 1;
    }
    let own = Array::full(host, 1, number).unwrap();
    factorial(host, number - 1) * own[0]
}

fn served(name: &str) -> u64 {
    let stats = gpucache::stats(name).unwrap();
    stats.allocations()
}

pub(crate) fn main() {
    let host = Host::new();
    assert_eq!(outer(&host), 7.0);
    assert_eq!((served("outer"), served("inner")), (2, 1));
    assert_eq!(factorial(&host, 5), 120);
    assert_eq!(gpucache::stats("factorial").unwrap().entries, 5);
    assert_eq!(served("factorial"), 4);

    let sum = gpucache::cache_scope!(first, {
        let one = Array::full(&host, 1, 1_u32).unwrap();
        let two = gpucache::cache_scope!(second, { Array::full(&host, 1, 2_u32).unwrap() });
        one[0] + two[0]
    });
    assert_eq!((sum, served("first"), served("second")), (3, 1, 1));
}
