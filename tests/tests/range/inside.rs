//! Scopes inside the steps of other scopes. Their arenas lie in the arena of the step.

use std::sync::mpsc;

use gpucache::device::Virtual;
use gpucache::prelude::*;
use gpucache::{Scope, invalidate_all};
use gpucache_tests::faulty::{Failure, Fault};
use gpucache_tests::{Faulty, turn};
use proptest::prelude::*;

const MIB: usize = 1 << 20;

/// A training step with activations of 47 MiB. When half of them are gone, there is an evaluation of 21 MiB in a scope of its own.
struct Step {
    device: Virtual,
    step: Scope<'static>,
    evaluation: Scope<'static>,
}

impl Step {
    fn new([step, evaluation]: [&'static str; 2]) -> Step {
        Step { device: Virtual::new(1 << 40), step: Scope::new(step), evaluation: Scope::new(evaluation) }
    }

    fn array(&self, mib: usize) -> Array<u8, Virtual> {
        Array::zeros(&self.device, mib * MIB).unwrap()
    }

    fn evaluate(&self) -> Array<u8, Virtual> {
        self.evaluation.run(|| {
            drop((0..12).fold(self.array(10), |_, number| self.array(8 + number % 4)));
            self.array(1)
        })
    }

    fn run(&self, evaluations: usize, result: impl Fn(Array<u8, Virtual>)) {
        self.step.run(|| {
            let mut activations: Vec<_> = (0..16).map(|number| self.array(2 + number % 3)).collect();
            while let Some(activation) = activations.pop() {
                let gradient = self.array(3);
                drop((activation, gradient));
                if activations.len() == 8 {
                    (0..evaluations).for_each(|_| result(self.evaluate()));
                }
            }
        });
    }

    /// The planned shares of both scopes.
    fn shares(&self) -> [f64; 2] {
        [&self.step, &self.evaluation].map(|scope| scope.stats().unwrap().served.planned_share())
    }
}

#[test]
fn the_arena_of_a_scope_inside_a_step_lies_in_that_of_the_step() {
    let _turn = turn();
    for (evaluations, names) in
        [(1, ["with one", "one inside"]), (2, ["with two", "two inside"]), (5, ["with five", "five inside"])]
    {
        let program = Step::new(names);
        (0..20).for_each(|_| program.run(evaluations, drop));
        let (before, shares) = (program.device.memory(), program.shares());
        (0..20).for_each(|_| program.run(evaluations, drop));
        let after = program.device.memory();
        assert!(after.bytes <= 56 << 20, "{} bytes are reserved, and 50 MiB are in use", after.bytes);
        assert_eq!(after.times_taken(), before.times_taken(), "calls of the device");
        assert!(shares.iter().all(|&share| share > 0.7), "{shares:?} are planned");
        let in_use = [&program.step, &program.evaluation].map(|scope| scope.stats().unwrap().busy_bytes);
        assert_eq!(in_use, [0, 0]);
        let _ = invalidate_all();
        assert_eq!(program.device.memory().bytes, 0);
        program.device.synchronize().unwrap();
    }
}

/// Steps with an evaluation and steps without one take turns.
#[test]
fn steps_with_and_without_a_scope_inside_take_turns() {
    let _turn = turn();
    let program = Step::new(["takes turns", "inside, in turn"]);
    (0..60).for_each(|number| program.run(usize::from(number % 3 == 2), drop));
    let before = program.device.memory();
    (0..30).for_each(|number| program.run(usize::from(number % 3 == 2), drop));
    let after = program.device.memory();
    assert!(after.bytes <= 56 << 20, "{} bytes are reserved, and 50 MiB are in use", after.bytes);
    assert_eq!(after.times_taken(), before.times_taken(), "calls of the device");
    let shares = program.shares();
    assert!(shares.iter().all(|&share| share > 0.7), "{shares:?} are planned");
    let _ = invalidate_all();
}

/// The scope inside counts its own allocations, and the step none for it.
#[test]
fn a_scope_inside_is_counted_by_itself() {
    let _turn = turn();
    let program = Step::new(["counts", "counts inside"]);
    (0..30).for_each(|_| program.run(2, drop));
    let [step, evaluation] = [&program.step, &program.evaluation].map(|scope| scope.stats().unwrap());
    assert_eq!((step.allocations(), evaluation.allocations()), (30 * 32, 30 * 28));
    assert_eq!((step.busy_blocks, evaluation.busy_blocks, evaluation.idle_bytes >> 20), (0, 0, 1));
    program.step.run(|| {
        let kept = program.evaluate();
        let [step, evaluation] = [&program.step, &program.evaluation].map(|scope| scope.stats().unwrap());
        assert_eq!((step.busy_blocks > 1, evaluation.busy_blocks), (false, 1));
        drop(kept);
    });
    let _ = invalidate_all();
}

/// Results that outlive the scope inside are used and dropped later: in the step, in the next one, and by another thread.
#[test]
fn results_outlive_the_scope_inside() {
    let _turn = turn();
    let program = Step::new(["results", "results inside"]);
    let (sender, receiver) = mpsc::channel::<Array<u8, Virtual>>();
    let other = std::thread::spawn(move || receiver.into_iter().for_each(drop));
    let kept = std::cell::RefCell::new(Vec::new());
    for number in 0..60 {
        program.run(2, |result| match number % 5 {
            0 | 1 => drop(result),
            2 => kept.borrow_mut().push(result),
            3 => sender.send(result).unwrap(),
            _ => kept.borrow_mut().clear(),
        });
        if number % 17 == 16 {
            let _ = invalidate(["results", "results inside"][number % 2]);
        }
    }
    drop(sender);
    other.join().unwrap();
    kept.borrow_mut().clear();
    let _ = invalidate_all();
    assert_eq!(program.device.memory().bytes, 0);
    program.device.synchronize().unwrap();
}

/// Two scopes, one inside the other. Their memory can be asked for while a small array of the inner one is alive.
struct Pair {
    device: Virtual,
    outer: Scope<'static>,
    inner: Scope<'static>,
}

impl Pair {
    /// After twenty entries, the inner arena of 100 MiB lies in that of the outer scope, which has nothing else. The small array outlives both scopes
    /// in each entry, or in none.
    fn trained([outer, inner]: [&'static str; 2], outlives: bool) -> Pair {
        let pair = Pair { device: Virtual::new(160 << 20), outer: Scope::new(outer), inner: Scope::new(inner) };
        (0..20).for_each(|_| match outlives {
            true => drop(pair.step()),
            false => pair.outer.run(|| pair.inner.run(|| drop(pair.work()))),
        });
        pair
    }

    /// Pairs whose small array outlives their scopes in each entry, and in none until now.
    fn both(names: [[&'static str; 2]; 2]) -> [Pair; 2] {
        let [often, never] = names;
        [Pair::trained(often, true), Pair::trained(never, false)]
    }

    /// A step whose small result outlives both scopes.
    fn step(&self) -> Array<u8, Virtual> {
        self.outer.run(|| self.inner.run(|| self.work()))
    }

    fn work(&self) -> Array<u8, Virtual> {
        let large = self.array(100 * MIB);
        let small = self.array(256);
        // It is in nobody's way, so it is no reason to give the arena up.
        (0..200).for_each(|_| drop(self.array(1024)));
        drop(large);
        small
    }

    fn array(&self, bytes: usize) -> Array<u8, Virtual> {
        Array::zeros(&self.device, bytes).unwrap()
    }
}

#[test]
fn a_small_result_keeps_no_arena_from_others() {
    let _turn = turn();
    for pair in Pair::both([["lends", "keeps little"], ["lends at last", "keeps little at last"]]) {
        let small = pair.step();
        drop(pair.array(100 * MIB));
        drop(small);
    }
    let _ = invalidate_all();
}

/// The one in need is another thread, and then this one, while the outer scope is entered.
#[test]
fn a_small_result_keeps_no_arena_from_others_within_the_outer_scope() {
    let _turn = turn();
    for pair in Pair::both([["lends within", "little within"], ["lends within, at last", "little within, at last"]]) {
        pair.outer.run(|| {
            let small = pair.inner.run(|| pair.work());
            // Only a thread that works in the outer scope can cut its arena, so this may fail.
            let device = pair.device.clone();
            let elsewhere = std::thread::spawn(move || Array::<u8, _>::zeros(&device, 100 * MIB).map(drop));
            let _ = elsewhere.join().unwrap();
            drop(pair.array(100 * MIB));
            drop(small);
        });
    }
    let _ = invalidate_all();
}

#[test]
fn an_invalidation_returns_all_but_a_small_result() {
    let _turn = turn();
    for pair in Pair::both([["lends and goes", "goes"], ["lends and goes at last", "goes at last"]]) {
        let small = pair.step();
        let _ = invalidate_all();
        let _ = pair.device.trim();
        assert!(pair.device.memory().bytes <= 4 << 20, "{} bytes are reserved for 256", pair.device.memory().bytes);
        drop(small);
        let _ = invalidate_all();
        assert_eq!(pair.device.memory().bytes, 0);
    }
}

/// The outer scope has an array of its own from before, and plans nothing but the scope inside.
#[test]
fn blocks_in_use_are_counted_where_a_step_has_only_a_scope_inside() {
    let _turn = turn();
    let (outer, device) = (Scope::new("weights"), Virtual::new(1 << 40));
    let array = |mib| Array::<u8, Virtual>::zeros(&device, mib * MIB).unwrap();
    let inner = Scope::new("inside weights");
    let weights = outer.run(|| array(1));
    (0..12).for_each(|_| {
        outer.run(|| {
            inner.run(|| drop(array(8)));
            assert_eq!(outer.stats().unwrap().busy_blocks, 1);
        });
    });
    let result = outer.run(|| inner.run(|| array(8)));
    let [stats, inside] = [&outer, &inner].map(|scope| scope.stats().unwrap());
    assert_eq!((stats.busy_blocks, inside.busy_blocks), (1, 1));
    assert_eq!(stats.outside_plan.peak_bytes, 1 << 20);
    drop((weights, result));
    let _ = invalidate_all();
}

/// A limit of the outer scope counts none of what the inner one has.
#[test]
fn a_limit_does_not_count_the_arena_of_a_scope_inside() {
    let _turn = turn();
    let names = ["is limited", "is limited at last"];
    let pairs = Pair::both([[names[0], "beside the limit"], [names[1], "beside the limit at last"]]);
    for (pair, name) in pairs.into_iter().zip(names) {
        let small = pair.step();
        Scope::new(name).limit("50MiB").run(|| drop(pair.array(MIB)));
        drop(small);
    }
    let _ = invalidate_all();
}

/// A part of a step. Each array lives until the given number of parts later.
#[derive(Clone, Debug)]
enum Part {
    Own {
        bytes: usize,
        lives: usize,
    },
    /// Arrays in a scope inside. From this array on, they are those of one more scope inside that one, or inside itself.
    Inside {
        scope: usize,
        arrays: Vec<(usize, usize)>,
        deeper: usize,
    },
    Drop,
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let bytes = || prop_oneof![1..300usize, 1..(64usize << 10), 1..(3 * MIB)];
    let lives = || prop_oneof![4 => Just(0), 3 => 1..6usize, 1 => 6..60usize];
    let part = prop_oneof![
        4 => (bytes(), lives()).prop_map(|(bytes, lives)| Part::Own { bytes, lives }),
        3 => (0..2usize, prop::collection::vec((bytes(), lives()), 1..12), 0..24usize)
            .prop_map(|(scope, arrays, deeper)| Part::Inside { scope, arrays, deeper }),
        1 => Just(Part::Drop),
    ];
    prop::collection::vec(part, 2..20)
}

/// A disturbance of a step.
#[derive(Clone, Copy, Debug)]
enum Odd {
    Nothing,
    LeavesOut(usize),
    Invalidates(usize),
    Trims,
    GuardsOutOfOrder,
}

fn odd() -> impl Strategy<Value = Odd> {
    prop_oneof![
        12 => Just(Odd::Nothing),
        2 => any::<usize>().prop_map(Odd::LeavesOut),
        1 => (0..3usize).prop_map(Odd::Invalidates),
        1 => Just(Odd::Trims),
        1 => Just(Odd::GuardsOutOfOrder),
    ]
}

/// The arrays of a random program, with the number of the part after which each of them is dropped, and its contents.
struct Program<D: Device> {
    device: D,
    scopes: [Scope<'static>; 3],
    alive: Vec<(usize, u8, Array<u8, D>)>,
    now: usize,
}

impl<D: Device> Program<D> {
    fn new(device: D) -> Program<D> {
        let scopes = ["random, step", "random, inside", "random, inside, too"].map(Scope::new);
        Program { device, scopes, alive: Vec::new(), now: 0 }
    }

    fn allocate(&mut self, make: &impl Fn(&D, usize, u8) -> Option<Array<u8, D>>, bytes: usize, lives: usize) {
        let seed = (self.now % 251) as u8;
        let made = make(&self.device, bytes, seed);
        self.alive.extend(made.map(|array| (self.now + lives, seed, array)));
    }

    fn pass(&mut self, check: &impl Fn(&Array<u8, D>, u8)) {
        let now = self.now;
        for (_, seed, array) in self.alive.extract_if(.., |(end, ..)| *end <= now) {
            check(&array, seed);
        }
        self.now += 1;
    }

    fn part(
        &mut self,
        part: &Part,
        make: &impl Fn(&D, usize, u8) -> Option<Array<u8, D>>,
        check: &impl Fn(&Array<u8, D>, u8),
    ) {
        match part {
            Part::Own { bytes, lives } => self.allocate(make, *bytes, *lives),
            Part::Inside { scope, arrays, deeper } => {
                let mut guards = vec![self.scopes[1 + scope].enter()];
                for (number, (bytes, lives)) in arrays.iter().enumerate() {
                    if number == *deeper {
                        guards.push(self.scopes[2].enter());
                    }
                    self.allocate(make, *bytes, *lives);
                    self.pass(check);
                }
                guards.into_iter().rev().for_each(drop);
            }
            Part::Drop => self.alive.truncate(self.alive.len() / 2),
        }
        self.pass(check);
    }

    fn step(
        &mut self,
        (parts, odd): (&[Part], Odd),
        make: &impl Fn(&D, usize, u8) -> Option<Array<u8, D>>,
        check: &impl Fn(&Array<u8, D>, u8),
    ) {
        let step = self.scopes[0].enter();
        for (number, part) in parts.iter().enumerate() {
            match odd {
                Odd::LeavesOut(which) if which % parts.len() == number => continue,
                Odd::Invalidates(scope) if number == parts.len() / 2 => drop(self.scopes[scope].invalidate()),
                Odd::Trims if number == parts.len() / 2 => _ = self.device.trim(),
                _ => {}
            }
            self.part(part, make, check);
        }
        if matches!(odd, Odd::GuardsOutOfOrder) {
            let inside = self.scopes[1].enter();
            drop(step);
            self.allocate(make, MIB, 3);
            drop(inside);
        }
    }

    fn finish(mut self, check: &impl Fn(&Array<u8, D>, u8)) {
        self.alive.iter().for_each(|(_, seed, array)| check(array, *seed));
        self.alive.clear();
        let _ = invalidate_all();
        assert_eq!(self.device.trim(), 0, "an invalidation of everything leaves nothing to trim");
        assert_eq!(self.device.memory().bytes, 0);
        self.device.synchronize().unwrap();
    }
}

fn contents<D: Device>(array: &Array<u8, D>, seed: u8) {
    let bytes = array.to_vec().unwrap();
    let looked_at = bytes.iter().step_by(509).chain(bytes.last());
    assert!(looked_at.copied().all(|byte| byte == seed), "array {seed} was written by another one");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The virtual device notices every overlap, every double return, and missing pages.
    #[test]
    fn no_rule_is_broken_over_pages(parts in parts(), odd in prop::collection::vec(odd(), 8..30)) {
        let _turn = turn();
        let mut program = Program::new(Virtual::new(1 << 40));
        let make = |device: &Virtual, bytes, _| Some(Array::zeros(device, bytes).unwrap());
        odd.iter().for_each(|&odd| program.step((&parts, odd), &make, &|_, _| ()));
        program.finish(&|_, _| ());
    }

    /// Requests may fail for want of memory.
    #[test]
    fn no_rule_is_broken_with_little_memory(
        parts in parts(),
        odd in prop::collection::vec(odd(), 8..30),
        pages in 1..20usize,
    ) {
        let _turn = turn();
        let mut program = Program::new(Virtual::new(pages * 2 * MIB));
        let make = |device: &Virtual, bytes, _| Array::zeros(device, bytes).ok();
        odd.iter().for_each(|&odd| program.step((&parts, odd), &make, &|_, _| ()));
        program.finish(&|_, _| ());
    }

    #[test]
    fn contents_stay_over_chunks(parts in parts(), odd in prop::collection::vec(odd(), 8..16)) {
        let _turn = turn();
        let device = Faulty::with_chunks(usize::MAX);
        let mut program = Program::new(device.clone());
        let make = |device: &Faulty, bytes, seed| Some(Array::full(device, bytes, seed).unwrap());
        odd.iter().for_each(|&odd| program.step((&parts, odd), &make, &contents));
        program.finish(&contents);
        device.assert_clean();
    }

    /// Any call of the device may fail.
    #[test]
    fn nothing_is_lost_if_a_call_fails(
        parts in parts(),
        odd in prop::collection::vec(odd(), 8..16),
        call in 1..400u64,
    ) {
        let _turn = turn();
        let device = Faulty::with_chunks(usize::MAX);
        device.arm(Fault::once(call, Failure::OutOfMemory));
        let mut program = Program::new(device.clone());
        let make = |device: &Faulty, bytes, seed| Array::full(device, bytes, seed).ok();
        odd.iter().for_each(|&odd| program.step((&parts, odd), &make, &|_, _| ()));
        device.disarm();
        program.finish(&|_, _| ());
        device.assert_clean();
    }
}
