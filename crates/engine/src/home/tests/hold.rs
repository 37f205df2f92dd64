//! One thread at a time is inside, and one of the threads does the work that others leave.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom::thread::{JoinHandle, spawn};

use super::{Marked, sorted};
use crate::home::generations::Generations;
use crate::home::hold::{Duties, Hold};
use crate::home::returns::Returns;

/// A cache whose contents are the marks that returned, and the number of invalidations that it followed.
struct Toy {
    hold: Hold<Contents>,
    returns: Returns<Marked>,
    generations: Generations,
    alive: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Contents {
    returned: Vec<u64>,
    renewed: u64,
}

impl Duties for Toy {
    fn is_due(&self) -> bool {
        !self.returns.is_empty() || self.generations.is_behind()
    }

    fn catch_up(&self) {
        if self.generations.is_behind() {
            self.generations.follow();
            self.owned(|contents| contents.renewed += 1);
        }
        for node in self.returns.take() {
            self.owned(|contents| contents.returned.push(node.mark));
        }
    }
}

impl Toy {
    /// Only for a thread that holds the cache. loom reports any other call.
    fn owned<R>(&self, act: impl FnOnce(&mut Contents) -> R) -> R {
        // SAFETY: loom checks each access before it is made.
        unsafe { self.hold.owned(act) }
    }

    fn exit(&self, me: u64) {
        assert!(self.hold.is_mine(me));
        // SAFETY: this thread owns the cache, as the assertion above checks.
        unsafe { self.hold.exit_after(me, self, || ()) };
    }

    /// As `Cache::enter` and then `Cache::leave`.
    fn visit(&self, me: u64) {
        self.hold.enter(me);
        if self.is_due() {
            self.catch_up();
        }
        self.owned(|_| ());
        self.exit(me);
    }

    /// As `Cache::give_back_from_outside`.
    fn give_back(&self, me: u64) {
        let node = Marked::new(me, &self.alive);
        if self.hold.try_hold(me) {
            self.owned(|contents| contents.returned.push(node.mark));
            return self.exit(me);
        }
        self.returns.push(me, node);
        self.hold.attend(me, self);
    }

    /// As `Cache::invalidate`.
    fn invalidate(&self, me: u64) {
        self.generations.raise();
        self.release(me);
    }

    /// As `Cache::release_idle`.
    fn release(&self, me: u64) {
        if self.hold.hold_unless_entered(me) {
            self.catch_up();
            self.exit(me);
        }
    }
}

type Act = fn(&Toy, u64);

/// Lets threads act at once, and then checks that nobody is inside, nothing is due, and all nodes returned.
fn check(acts: &'static [Act], returned: &'static [u64], is_renewed: bool) {
    loom::model(move || {
        let (hold, returns, generations) = (Hold::new(Contents::default()), Returns::new(), Generations::new());
        let toy = Arc::new(Toy { hold, returns, generations, alive: Arc::default() });
        let start = |(me, act): (u64, &Act)| -> JoinHandle<()> {
            let (toy, act) = (Arc::clone(&toy), *act);
            spawn(move || act(&toy, me))
        };
        // Tokens begin at 1. This thread runs the first act.
        let others: Vec<_> = (2..).zip(&acts[1..]).map(start).collect();
        acts[0](&toy, 1);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!toy.is_due(), "something is left to do, and nobody will do it");
        assert!(toy.hold.try_hold(9), "somebody holds it still");
        assert!(!toy.hold.is_entered());
        toy.owned(|contents| {
            assert_eq!(sorted(std::mem::take(&mut contents.returned)), returned);
            assert_eq!(contents.renewed > 0, is_renewed);
        });
        assert_eq!(toy.alive.load(Relaxed), 0);
    });
}

#[test]
fn a_drop_while_the_owner_leaves() {
    check(&[Toy::visit, Toy::give_back], &[2], false);
}

#[test]
fn two_drops_while_the_owner_leaves() {
    check(&[Toy::visit, Toy::give_back, Toy::give_back], &[2, 3], false);
}

#[test]
fn two_drops_while_nobody_is_inside() {
    check(&[Toy::give_back, Toy::give_back], &[1, 2], false);
}

#[test]
fn an_invalidation_while_the_owner_leaves() {
    check(&[Toy::visit, Toy::invalidate], &[], true);
}

#[test]
fn an_invalidation_and_a_drop_while_the_owner_leaves() {
    check(&[Toy::visit, Toy::invalidate, Toy::give_back], &[3], true);
}

#[test]
fn two_invalidations() {
    check(&[Toy::invalidate, Toy::invalidate], &[], true);
}

#[test]
fn an_entry_against_a_release() {
    check(&[Toy::visit, Toy::release], &[], false);
}

/// A thread that wants idle memory waits for threads that hold the cache for a moment.
#[test]
fn a_release_while_nobody_is_inside() {
    fn insist(toy: &Toy, me: u64) {
        assert!(toy.hold.hold_unless_entered(me));
        toy.exit(me);
    }
    check(&[insist, Toy::give_back], &[2], false);
}

#[test]
fn an_entry_against_a_release_and_a_drop() {
    check(&[Toy::visit, Toy::release, Toy::give_back], &[3], false);
}

/// The cache's thread has ended. An array of the cache is dropped while the next thread enters.
#[test]
fn an_orphan_that_is_adopted_while_another_gives_back() {
    fn leave_to_another(toy: &Toy, me: u64) {
        toy.visit(me);
        toy.visit(me + 100);
    }
    check(&[leave_to_another, Toy::give_back], &[2], false);
}

/// One thread enters within an entry, and holds the cache within an entry.
#[test]
fn an_entry_within_an_entry() {
    fn nested(toy: &Toy, me: u64) {
        toy.hold.enter(me);
        toy.visit(me);
        assert!(toy.hold.is_entered());
        toy.invalidate(me);
        toy.exit(me);
    }
    check(&[nested, Toy::give_back], &[2], true);
}
