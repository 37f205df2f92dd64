//! A name that is entered again inside itself with another `recycle`. After the inner entry is left, the outer entry behaves as if the
//! inner one had had the same policy.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gpucache::device::{Device, Virtual};
use gpucache::{Array, invalidate, stats};
use gpucache::{Recycle, Scope, ScopeGuard};
use gpucache_tests::supplied;

const ALL: [Recycle; 4] = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];

/// The visible effects of a scope's policy.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    entries: u64,
    hits: u64,
    supplied: u64,
    idle_blocks: u64,
    idle_bytes: u64,
    plans: u64,
    planned: u64,
    device_bytes: u64,
}

/// A scope and a device for one test.
struct Named {
    name: String,
    device: Virtual,
}

impl Named {
    fn new() -> Named {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("entered again {}", NEXT.fetch_add(1, Relaxed));
        Named { name, device: Virtual::new(1 << 40) }
    }

    fn enter(&self, recycle: Recycle) -> ScopeGuard {
        Scope::new(&self.name).recycle(recycle).enter()
    }

    /// Allocates and drops arrays of more sizes than a scope keeps, and larger ones than it may keep, unless it keeps everything.
    fn work(&self) {
        for _ in 0..2 {
            (1..=20).for_each(|size| drop(Array::<u8, _>::zeros(&self.device, size << 20).unwrap()));
        }
    }

    fn seen(&self) -> Seen {
        let stats = stats(&self.name).unwrap();
        Seen {
            entries: stats.entries,
            hits: stats.hits,
            supplied: supplied(&stats),
            idle_blocks: stats.idle_blocks,
            idle_bytes: stats.idle_bytes,
            plans: stats.plan.plans,
            planned: stats.served.planned.allocations,
            device_bytes: self.device.memory().bytes,
        }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = invalidate(&self.name);
        // No memory was handed out twice.
        assert!(std::thread::panicking() || self.device.synchronize().is_ok());
    }
}

/// Compares a program whose inner entries have the outer entry's policy with one whose inner entries have another.
fn differs_in_nothing(what: &str, program: impl Fn(&Named, Recycle, Recycle)) {
    differs_in_none_of(&ALL, what, program);
}

fn differs_in_none_of(policies: &[Recycle], what: &str, program: impl Fn(&Named, Recycle, Recycle)) {
    let mut found = Vec::new();
    for &outer in policies {
        let played = |inner| {
            let scope = Named::new();
            program(&scope, outer, inner);
            scope.seen()
        };
        let alike = played(outer);
        for &inner in policies.iter().filter(|inner| **inner != outer) {
            let other = played(inner);
            if other != alike {
                found.push(format!("{outer:?} outside, {inner:?} inside: {other:?}\n  instead of {alike:?}"));
            }
        }
    }
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn keyed_outside_keeps_everything() {
    let scope = Named::new();
    let outer = scope.enter(Recycle::Keyed);
    drop(scope.enter(Recycle::Range));
    scope.work();
    assert_eq!((stats(&scope.name).unwrap().idle_blocks, stats(&scope.name).unwrap().hits), (20, 20));
    drop(outer);
    assert_eq!(stats(&scope.name).unwrap().idle_blocks, 20, "what is idle stays when the outer one is left");
}

#[test]
fn range_outside_keeps_its_share() {
    let scope = Named::new();
    let _outer = scope.enter(Recycle::Range);
    drop(scope.enter(Recycle::Keyed));
    scope.work();
    let found = stats(&scope.name).unwrap();
    assert!(found.idle_bytes <= 1 << 20, "{found:?}");
}

#[test]
fn an_inner_entry_that_does_nothing() {
    differs_in_nothing("left at once", |scope, outer, inner| {
        for _ in 0..8 {
            let _outer = scope.enter(outer);
            drop(scope.enter(inner));
            scope.work();
        }
    });
}

#[test]
fn several_levels_of_them() {
    differs_in_nothing("three levels", |scope, outer, inner| {
        for _ in 0..8 {
            let _outer = scope.enter(outer);
            let again = scope.enter(outer);
            drop([(); 3].map(|()| scope.enter(inner)));
            scope.work();
            drop(again);
            scope.work();
        }
    });
}

#[test]
fn an_inner_entry_left_by_a_panic() {
    differs_in_nothing("a panic", |scope, outer, inner| {
        for _ in 0..4 {
            let _outer = scope.enter(outer);
            let unwinds = catch_unwind(AssertUnwindSafe(|| {
                let _inner = scope.enter(inner);
                resume_unwind(Box::new("as the test asks"));
            }));
            assert!(unwinds.is_err());
            scope.work();
        }
    });
}

/// With another scope between the two, and with none.
#[test]
fn entries_with_others_between() {
    differs_in_nothing("others between", |scope, outer, inner| {
        for _ in 0..4 {
            let _outer = scope.enter(outer);
            let between = Scope::new("between two entries").recycle(Recycle::Auto).enter();
            let outside = ScopeGuard::outside();
            drop(scope.enter(inner));
            drop((outside, between));
            scope.work();
        }
    });
}

/// Futures that take turns leave in any order. Each leave behaves as its own entry says. There is no plan, because a plan begins
/// with the outermost entry.
#[test]
fn the_outer_one_is_left_first() {
    differs_in_none_of(&ALL[1..], "left in turn", |scope, outer, inner| {
        for _ in 0..4 {
            let first = scope.enter(inner);
            let second = scope.enter(outer);
            drop(first);
            scope.work();
            drop(second);
        }
    });
}

#[test]
fn the_middle_one_is_left_first() {
    differs_in_nothing("the middle one", |scope, outer, inner| {
        for _ in 0..4 {
            let first = scope.enter(outer);
            let second = scope.enter(inner);
            let third = scope.enter(inner);
            drop(second);
            drop(third);
            scope.work();
            drop(first);
        }
    });
}
