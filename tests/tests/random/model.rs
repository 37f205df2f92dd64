//! Random programs on one thread, against a naive model that knows every number. After each operation the statistics of
//! every scope and the bytes that the device holds equal the model's, and every array contains what was written.
//!
//! `PROPTEST_CASES` sets the number of programs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gpucache::{Recycle, Scope, ScopeGuard};
use gpucache::{cache_scope, invalidate, stats};
use gpucache_tests::model::{Block, Home, Key, SHAPES, ScopeModel};
use gpucache_tests::{Faulty, Marked};
use proptest::prelude::*;

/// The number of scopes in a program.
const NAMES: usize = 3;

/// The operations of a program. Their numbers select among the arrays or scopes that exist at that moment.
#[derive(Clone, Copy, Debug)]
enum Op {
    Enter {
        name: usize,
        keeps: bool,
    },
    Uncached,
    Leave {
        guard: usize,
    },
    Allocate {
        key: Key,
    },
    Drop {
        array: usize,
    },
    Check {
        array: usize,
    },
    Rewrite {
        array: usize,
    },
    Clone {
        array: usize,
    },
    Flatten {
        array: usize,
    },
    Invalidate {
        name: usize,
    },
    /// An operation on another thread, which ends before the next operation.
    Elsewhere(There),
}

#[derive(Clone, Copy, Debug)]
enum There {
    Drop {
        array: usize,
    },
    Invalidate {
        name: usize,
    },
    /// Enters the scope, allocates twice, drops the first array, and lets the second one escape.
    Visit {
        name: usize,
        key: Key,
    },
}

/// A running program: the real state, and the model beside it.
struct Run {
    device: Faulty,
    names: [String; NAMES],
    guards: Vec<(ScopeGuard, Option<(usize, bool)>)>,
    arrays: Vec<(Marked<Faulty>, Block)>,
    model: [ScopeModel; NAMES],
    next_mark: u32,
}

impl Run {
    fn new() -> Run {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Relaxed);
        let names = std::array::from_fn(|name| format!("model {run}, {name}"));
        let (guards, arrays, model) = (Vec::new(), Vec::new(), std::array::from_fn(|_| ScopeModel::default()));
        Run { device: Faulty::new(), names, guards, arrays, model, next_mark: 0 }
    }

    fn mark(&mut self) -> u32 {
        self.next_mark += 1;
        self.next_mark
    }

    /// Predicts with the model where an allocation comes from.
    fn expect_allocation(&mut self, key: Key) -> Block {
        let home = match self.guards.last().and_then(|(_, scope)| *scope) {
            Some((name, keeps)) => self.model[name].allocate(name, key, keeps),
            None => Home::Plain,
        };
        Block { key, home }
    }

    fn expect_drop(&mut self, block: Block, elsewhere: bool) {
        if let Home::Kept { name, .. } | Home::Released { name, .. } = block.home {
            self.model[name].dropped(block, elsewhere);
        }
    }

    fn step(&mut self, op: Op) {
        let pick = |number: usize| (!self.arrays.is_empty()).then(|| number % self.arrays.len());
        match op {
            Op::Enter { name, keeps } => self.enter(name, keeps),
            Op::Uncached => self.guards.push((ScopeGuard::outside(), None)),
            Op::Leave { guard } if !self.guards.is_empty() => self.leave(guard % self.guards.len()),
            Op::Leave { .. } => {}
            Op::Allocate { key } => {
                let (mark, block) = (self.mark(), self.expect_allocation(key));
                let array = Marked::new(&self.device, key.kind, SHAPES[key.shape], mark).unwrap();
                assert_eq!(array.shape(), SHAPES[key.shape]);
                self.arrays.push((array, block));
            }
            Op::Invalidate { name } => {
                let answer = invalidate(&self.names[name]);
                self.expect_invalidation(name, false, (answer.bytes, answer.busy_blocks));
            }
            Op::Elsewhere(There::Invalidate { name }) => {
                let answer = std::thread::scope(|s| s.spawn(|| invalidate(&self.names[name])).join().unwrap());
                self.expect_invalidation(name, true, (answer.bytes, answer.busy_blocks));
            }
            Op::Elsewhere(There::Visit { name, key }) => self.visit(name, key),
            Op::Drop { array } | Op::Elsewhere(There::Drop { array }) => {
                if let Some(place) = pick(array) {
                    self.drop(place, matches!(op, Op::Elsewhere(_)));
                }
            }
            Op::Check { array } | Op::Rewrite { array } | Op::Clone { array } | Op::Flatten { array } => {
                if let Some(place) = pick(array) {
                    self.use_array(op, place);
                }
            }
        }
    }

    fn enter(&mut self, name: usize, keeps: bool) {
        let recycle = if keeps { Recycle::Keyed } else { Recycle::Off };
        self.guards.push((Scope::new(&self.names[name]).recycle(recycle).enter(), Some((name, keeps))));
        self.model[name].enter();
    }

    fn leave(&mut self, place: usize) {
        if let (_, Some((name, _))) = self.guards.remove(place) {
            self.model[name].leave();
        }
    }

    fn drop(&mut self, place: usize, elsewhere: bool) {
        let (array, block) = self.arrays.swap_remove(place);
        array.check();
        match elsewhere {
            true => std::thread::scope(|threads| threads.spawn(|| drop(array)).join().unwrap()),
            false => drop(array),
        }
        self.expect_drop(block, elsewhere);
    }

    fn use_array(&mut self, op: Op, place: usize) {
        let mark = self.mark();
        let (array, block) = self.arrays.swap_remove(place);
        array.check();
        let mut array = array;
        match op {
            Op::Rewrite { .. } => array.rewrite(mark).unwrap(),
            Op::Flatten { .. } => array = array.flatten().unwrap(),
            // The clone of a reshaped array has the new shape.
            Op::Clone { .. } if array.shape() == SHAPES[block.key.shape] => {
                let copy = self.expect_allocation(block.key);
                self.arrays.push((array.try_clone().unwrap(), copy));
            }
            _ => {}
        }
        self.arrays.push((array, block));
    }

    fn expect_invalidation(&mut self, name: usize, elsewhere: bool, answer: (u64, u64)) {
        let scope = &mut self.model[name];
        // The memory that the scope is likely to need again also counts, and may exceed the idle memory in its lists.
        assert!(answer.0 >= scope.idle().1 && answer.1 == scope.busy().0, "the invalidation says {answer:?}");
        scope.invalidated(elsewhere);
    }

    fn visit(&mut self, name: usize, key: Key) {
        let (mark, device, full_name) = (self.mark(), &self.device, &self.names[name]);
        let make = || Marked::new(device, key.kind, SHAPES[key.shape], mark).unwrap();
        let visit = || {
            cache_scope!(name = full_name, {
                drop(make());
                make()
            })
        };
        let escaped = std::thread::scope(|threads| threads.spawn(visit).join().unwrap());
        let home = self.model[name].visited(name, key);
        self.arrays.push((escaped, Block { key, home }));
    }

    /// Compares every number with the model's.
    fn compare(&self) {
        let mut held = 0;
        for (name, model) in self.names.iter().zip(&self.model) {
            let found = stats(name).unwrap_or_default();
            let counted = [found.entries, found.hits, found.recycled, found.misses, found.high_water_bytes];
            let expected = [
                model.sum(|cache| cache.entries),
                model.sum(|cache| cache.hits),
                model.sum(|cache| cache.recycled),
                model.sum(|cache| cache.misses),
                model.sum(|cache| cache.high_water),
            ];
            assert_eq!(counted, expected, "entries, hits, recycled, misses, high-water mark");
            assert_eq!((found.device_allocations, found.mapped_pieces), (found.misses, 0), "a device without a range");
            assert_eq!((found.busy_blocks, found.busy_bytes), model.busy(), "busy");
            assert_eq!((found.idle_blocks, found.idle_bytes), model.idle(), "idle");
            held += model.busy().1 + model.idle().1;
        }
        let plain = self.arrays.iter().filter(|(_, block)| block.home == Home::Plain);
        held += plain.map(|(_, block)| block.key.bytes()).sum::<u64>();
        assert_eq!(self.device.live().iter().sum::<usize>() as u64, held, "bytes that the device holds");
    }

    /// Ends the program: leaves, checks and drops everything, and checks that nothing is left.
    fn finish(mut self) {
        while !self.guards.is_empty() {
            self.leave(self.guards.len() / 2);
            self.compare();
        }
        while !self.arrays.is_empty() {
            self.drop(self.arrays.len() / 2, false);
            self.compare();
        }
        self.names.iter().for_each(|name| _ = invalidate(name));
        self.device.assert_clean();
    }
}

fn key() -> impl Strategy<Value = Key> {
    (0..Key::ALL).prop_map(Key::number)
}

fn op() -> impl Strategy<Value = Op> {
    let there = prop_oneof![
        3 => any::<usize>().prop_map(|array| There::Drop { array }),
        1 => (0..NAMES).prop_map(|name| There::Invalidate { name }),
        1 => (0..NAMES, key()).prop_map(|(name, key)| There::Visit { name, key }),
    ];
    prop_oneof![
        6 => (0..NAMES, prop::bool::weighted(0.85)).prop_map(|(name, keeps)| Op::Enter { name, keeps }),
        1 => Just(Op::Uncached),
        5 => any::<usize>().prop_map(|guard| Op::Leave { guard }),
        16 => key().prop_map(|key| Op::Allocate { key }),
        12 => any::<usize>().prop_map(|array| Op::Drop { array }),
        2 => any::<usize>().prop_map(|array| Op::Check { array }),
        2 => any::<usize>().prop_map(|array| Op::Rewrite { array }),
        2 => any::<usize>().prop_map(|array| Op::Clone { array }),
        2 => any::<usize>().prop_map(|array| Op::Flatten { array }),
        1 => (0..NAMES).prop_map(|name| Op::Invalidate { name }),
        3 => there.prop_map(Op::Elsewhere),
    ]
}

fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn every_number_is_the_models(ops in prop::collection::vec(op(), 1..120)) {
        let mut run = Run::new();
        for op in ops {
            run.step(op);
            run.compare();
        }
        run.finish();
    }
}

/// The visit makes the scope plan. Within the next entry, an entry that keeps blocks by key takes an idle block at once. Blocks that
/// other threads returned stay with them.
#[test]
fn a_keyed_entry_within_one_that_plans_takes_an_idle_block() {
    let of_bytes = |bytes| (0..Key::ALL).map(Key::number).find(|key| key.bytes() == bytes).unwrap();
    let (some, none) = (of_bytes(3), of_bytes(0));
    let ops = [
        Op::Elsewhere(There::Visit { name: 0, key: none }),
        Op::Enter { name: 0, keeps: false },
        Op::Drop { array: 0 },
        Op::Allocate { key: some },
        Op::Enter { name: 0, keeps: true },
        Op::Elsewhere(There::Drop { array: 0 }),
        Op::Allocate { key: none },
    ];
    let mut run = Run::new();
    for op in ops {
        run.step(op);
        run.compare();
    }
    run.finish();
}
