//! Random programs whose scopes are nested in each other and in themselves, with arrays that outlive their entries. A scope reports as many
//! live bytes as a naive account: after each step of the first entries and of each third one behind them.
//!
//! `PROGRAMS=10000 cargo test --release -p gpucache-tests --test scopes nested_programs` runs that many programs.
#![allow(missing_docs)]

use std::collections::VecDeque;

use fastrand::Rng;
use gpucache::device::Virtual;
use gpucache::{Scope, ScopeGuard, prelude::*};
use gpucache_tests::seeds;

const SCOPES: usize = 4;
const ENTRIES: usize = 60;
/// In these entries a scope makes and tries its plans.
const FIRST: usize = 24;
/// The number of arrays that outlive their entries; a further one replaces the oldest.
const KEPT: usize = 5;

/// One step of a program. It repeats in each entry.
enum Step {
    Allocate(usize),
    /// Drops one of the arrays that are alive here; the number counts modulo their number.
    Drop(usize),
    Keep(usize),
    /// Runs steps in a scope, or outside all scopes.
    Inside(Option<usize>, Vec<Step>),
}

fn steps(rng: &mut Rng, depth: usize) -> Vec<Step> {
    let step = |rng: &mut Rng| match rng.u8(..10) {
        5 | 6 => Step::Drop(rng.usize(..8)),
        7 => Step::Keep(rng.usize(..8)),
        8 if depth < 3 => Step::Inside(Some(rng.usize(..SCOPES)), steps(rng, depth + 1)),
        9 if depth < 3 => Step::Inside(None, steps(rng, depth + 1)),
        _ => {
            let most = [1000, 200_000, 3_000_000][rng.usize(..3)];
            Step::Allocate(rng.usize(1..=most))
        }
    };
    (0..rng.usize(2..14)).map(|_| step(rng)).collect()
}

/// An array, and the scope that it belongs to.
type Owned = (Array<u8, Virtual>, Option<usize>);

struct Program {
    device: Virtual,
    names: Vec<String>,
    kept: VecDeque<Owned>,
    /// Live bytes by scope.
    busy: [u64; SCOPES],
    /// Whether each step of this entry is checked.
    is_checked: bool,
}

impl Program {
    fn free(&mut self, (array, scope): Owned) {
        scope.into_iter().for_each(|scope| self.busy[scope] -= array.len() as u64);
        drop(array);
        self.verify();
    }

    fn verify(&self) {
        if !self.is_checked {
            return;
        }
        for (name, busy) in self.names.iter().zip(self.busy) {
            assert_eq!(gpucache::stats(name).map_or(0, |stats| stats.busy_bytes), busy, "{name}");
        }
    }

    fn run(&mut self, scope: Option<usize>, steps: &[Step]) {
        let _guard = scope.map_or_else(ScopeGuard::outside, |scope| Scope::new(&self.names[scope]).enter());
        let mut alive: Vec<Owned> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate(bytes) => {
                    alive.push((self.device.zeros(*bytes).unwrap(), scope));
                    scope.into_iter().for_each(|scope| self.busy[scope] += *bytes as u64);
                }
                Step::Inside(scope, steps) => self.run(*scope, steps),
                Step::Drop(place) | Step::Keep(place) if !alive.is_empty() => {
                    let array = alive.remove(place % alive.len());
                    self.kept.push_back(array);
                    let is_kept = matches!(step, Step::Keep(_));
                    let gone = if !is_kept { self.kept.pop_back() } else { None };
                    let oldest = if self.kept.len() > KEPT { self.kept.pop_front() } else { None };
                    gone.into_iter().chain(oldest).for_each(|array| self.free(array));
                }
                Step::Drop(_) | Step::Keep(_) => {}
            }
            self.verify();
        }
        alive.into_iter().for_each(|array| self.free(array));
    }
}

#[test]
fn what_is_in_use_is_what_is_alive() {
    seeds::each(300, 1, |seed| {
        let mut rng = Rng::with_seed(seed);
        let names = (0..SCOPES).map(|scope| format!("nested {seed}: {scope}")).collect();
        let orders = [steps(&mut rng, 0), steps(&mut rng, 0)];
        let turns = rng.usize(1..=orders.len());
        let device = Virtual::unchecked(1 << 40);
        let mut program = Program { device, names, kept: VecDeque::new(), busy: [0; SCOPES], is_checked: true };
        for entry in 0..ENTRIES {
            program.is_checked = entry < FIRST || entry % 3 == 0;
            program.run(Some(entry % turns), &orders[entry % turns]);
        }
        program.is_checked = true;
        std::mem::take(&mut program.kept).into_iter().for_each(|array| program.free(array));
        program.names.iter().for_each(|name| _ = gpucache::invalidate(name));
        assert_eq!(program.device.memory().bytes, 0, "something is left");
    });
}
