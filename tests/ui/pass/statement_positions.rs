//! The block form wherever an expression or a statement may stand.
#![deny(warnings)]
use gpucache::cache_scope;

fn tail(text: &str) -> usize {
    cache_scope!(tail, { text.len() })
}

fn tail_in_braces(text: &str) -> usize {
    cache_scope! { tail, { text.len() } }
}

fn unit_tail(calls: &mut u32) {
    cache_scope!(unit, { *calls += 1 })
}

pub(crate) fn main() {
    let mut calls = 0;
    cache_scope!(statement, { calls += 1 });
    cache_scope!(statement, {
        calls += 1;
    });
    cache_scope! { statement, { calls += 1; } }
    unit_tail(&mut calls);
    assert_eq!(calls, 4);

    let value = cache_scope!(of_value, { 1 + 1 });
    let sum = cache_scope!(of_value, { 1 }) + cache_scope!(of_value, { value });
    let text = cache_scope!(of_value, { "method" }).to_owned();
    let matched = match cache_scope!(of_value, { sum }) {
        3 => cache_scope!(of_value, { Some(text) }),
        _ => None,
    };
    let closure = |x: i32| cache_scope!(closure, { x + sum });
    let array = [cache_scope!(of_value, { 5 }), closure(1)];
    if cache_scope!(of_value, { array == [5, 4] }) {
        calls += 1;
    }
    assert_eq!(calls, 5);
    assert_eq!(matched.as_deref(), Some("method"));
    assert_eq!(tail("four") + tail_in_braces("four"), 8);
    assert_eq!(gpucache::stats("of_value").unwrap().entries, 8);
    assert_eq!(gpucache::stats("statement").unwrap().entries, 3);
}
