//! Scopes as values: names and policies that the program chooses at run time, and scopes that an object owns.

use gpucache::device::{Device, Virtual};
use gpucache::{Array, OwnedScope, Recycle, Scope, ScopeGuard, invalidate, scopes};
use gpucache_tests::supplied;

fn touch(device: &Virtual, len: usize) {
    drop(Array::<u8, _>::zeros(device, len).unwrap());
}

#[test]
fn a_value_means_the_scope_of_its_name() {
    let device = Virtual::new(1 << 30);
    let name = String::from("value: by name");
    let one = Scope::new(&name).recycle(Recycle::Keyed);
    one.run(|| touch(&device, 4096));
    gpucache::cache_scope!(name = &name, recycle = "keyed", { touch(&device, 4096) });
    let inside = Scope::new(&name).recycle(Recycle::Keyed).enter();
    touch(&device, 4096);
    drop(inside);
    let stats = one.stats().unwrap();
    assert_eq!((stats.entries, stats.hits, supplied(&stats)), (3, 2, 1));
    assert_eq!(one.invalidate().bytes, 4096);
    assert_eq!(one.name(), name);
}

#[test]
fn a_body_returns_what_it_likes_and_its_panic_leaves_the_scope() {
    let device = Virtual::new(1 << 30);
    let scope = Scope::new("value: panics");
    assert_eq!(scope.run(|| 7), 7);
    let caught = std::panic::catch_unwind(|| scope.run(|| std::panic::resume_unwind(Box::new(()))));
    assert!(caught.is_err());
    touch(&device, 64);
    assert_eq!(supplied(&scope.stats().unwrap()), 0, "the array was of no scope");
}

#[test]
fn guards_end_their_own_entries_in_any_order() {
    let device = Virtual::new(1 << 30);
    let (outer, inner) = (Scope::new("value: outer"), Scope::new("value: inner"));
    let (first, second) = (outer.enter(), inner.enter());
    drop(first);
    touch(&device, 64);
    let outside = ScopeGuard::outside();
    touch(&device, 64);
    drop((outside, second));
    assert_eq!((supplied(&outer.stats().unwrap()), supplied(&inner.stats().unwrap())), (0, 1));
}

#[test]
fn an_owned_scope_has_a_cache_of_its_own_that_goes_with_it() {
    let device = Virtual::new(1 << 30);
    let new = || Scope::new("value: owned").recycle(Recycle::Keyed).owned();
    let (one, other): (OwnedScope, OwnedScope) = (new(), new());
    assert_ne!(one.as_scope().name(), other.as_scope().name());
    one.run(|| touch(&device, 4 << 20));
    other.run(|| touch(&device, 2 << 20));
    assert_eq!(one.as_scope().stats().unwrap().idle_bytes, 4 << 20);
    let kept = {
        let _inside = other.enter();
        Array::<u8, _>::zeros(&device, 2 << 20).unwrap()
    };
    let before = device.memory().bytes;
    drop(one);
    let after = device.memory().bytes;
    assert!(after + (2 << 20) <= before, "{before} bytes, and {after}: all but what the other one is likely to need");
    drop(other);
    assert_eq!(kept.len(), 2 << 20, "an array outlives its scope");
    drop(kept);
    device.trim();
    assert_eq!(device.memory().bytes, 0);
}

#[test]
fn a_dropped_owned_scope_is_no_name_any_more() {
    let owned = Scope::new("value: dropped").owned();
    let name = owned.as_scope().name().to_string();
    owned.run(|| touch(&Virtual::new(1 << 30), 64));
    assert!(scopes().iter().any(|known| **known == *name));
    drop(owned);
    assert!(scopes().iter().all(|known| **known != *name));
}

/// Before, an owned scope could get the name, and the memory, of a scope of the program.
#[test]
fn an_owned_scope_has_a_name_that_no_other_scope_has() {
    let names: Vec<String> = (1..100).map(|number| format!("value: mine#{number}")).collect();
    names.iter().for_each(|name| Scope::new(name).run(|| ()));
    let owned = Scope::new("value: mine").owned();
    assert!(names.iter().all(|name| name != owned.as_scope().name()), "{}", owned.as_scope().name());
}

#[test]
fn a_name_that_nobody_entered_is_told() {
    let known = Scope::new("value: known");
    known.run(|| ());
    assert!(known.invalidate().is_known && !invalidate("value: knwon").is_known);
    assert!(scopes().iter().any(|name| &**name == known.name()));
    assert!(scopes().iter().all(|name| &**name != "value: knwon"), "to ask for a name does not make it");
}
