//! An identifier that is a variable elsewhere in the file names a scope where it is no variable.
use gpucache::{cache_scope, prelude::*};

fn of_text(text: &str, step: usize) -> usize {
    match text {
        "a" | "b" => step,
        _ => 0,
    }
}

fn is_end(step: char) -> bool {
    matches!(step, '\n' | '\r')
}

#[rustfmt::skip]
fn without_comma(x: Option<u32>) -> u32 {
    match x {
        Some(step) => if step > 3 { 1 } else { step }
        None => cache_scope!(step, { 5 }),
    }
}

#[cache_scope(step)]
fn step(step: u32) -> u32 {
    step
}

pub(crate) fn main() {
    assert_eq!(of_text("a", 3), 3);
    assert!(is_end('\n'));
    assert_eq!(without_comma(None), 5);
    assert_eq!(step(2), 2);
    cache_scope!(step, {
        drop(Host::new().zeros::<u8>(8).unwrap());
    });
    assert_eq!(gpucache::stats("step").unwrap().entries, 3);
}
