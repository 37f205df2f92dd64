//! The range below the caches. Blocks of all sizes, scopes, threads and streams share it, over pages and over chunks.

use gpucache::device::Virtual;
use gpucache::prelude::*;
use gpucache::{Scope, cache_scope, invalidate_all, stats};
use gpucache_tests::faulty::{Failure, Fault};
use gpucache_tests::{Faulty, supplied, turn};
use proptest::prelude::*;

const MIB: usize = 1 << 20;

#[derive(Clone, Debug)]
enum Op {
    Allocate { bytes: usize, inner: bool },
    Drop(usize),
    Invalidate,
    Trim,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let bytes = prop_oneof![1..300usize, 1..(64usize << 10), 1..(3 * MIB), Just(0)];
    let op = prop_oneof![
        10 => (bytes, any::<bool>()).prop_map(|(bytes, inner)| Op::Allocate { bytes, inner }),
        9 => any::<usize>().prop_map(Op::Drop),
        1 => Just(Op::Invalidate),
        1 => Just(Op::Trim),
    ];
    prop::collection::vec(op, 1..150)
}

/// Runs a program in scopes. `check` checks each array before its drop, with the number that the array was made with.
fn run<D: Device>(device: &D, ops: &[Op], make: impl Fn(usize, u8) -> Array<u8, D>, check: impl Fn(&Array<u8, D>, u8)) {
    let mut arrays: Vec<(Array<u8, D>, u8)> = Vec::new();
    cache_scope!("range, outer", {
        for (op, seed) in ops.iter().zip((0..=u8::MAX).cycle()) {
            match op {
                Op::Allocate { bytes, inner: false } => arrays.push((make(*bytes, seed), seed)),
                Op::Allocate { bytes, inner: true } => {
                    cache_scope!("range, inner", { arrays.push((make(*bytes, seed), seed)) });
                }
                Op::Drop(place) if !arrays.is_empty() => {
                    let (array, seed) = arrays.swap_remove(place % arrays.len());
                    check(&array, seed);
                }
                Op::Drop(_) => {}
                Op::Invalidate => drop(invalidate("range, outer")),
                Op::Trim => _ = device.trim(),
            }
        }
        arrays.iter().for_each(|(array, seed)| check(array, *seed));
    });
    drop(arrays);
    let _ = invalidate_all();
    assert_eq!(device.trim(), 0, "an invalidation of everything leaves nothing to trim");
    assert_eq!(device.memory().bytes, 0);
    device.synchronize().unwrap();
}

fn contents<D: Device>(array: &Array<u8, D>, seed: u8) {
    let bytes = array.to_vec().unwrap();
    let looked_at = bytes.iter().step_by(509).chain(bytes.last());
    assert!(looked_at.copied().all(|byte| byte == seed), "array {seed} was written by another one");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The virtual device notices every overlap, every double return, and missing pages.
    #[test]
    fn no_rule_is_broken_over_pages(ops in ops()) {
        let _turn = turn();
        let device = Virtual::new(1 << 40);
        run(&device, &ops, |bytes, _| Array::zeros(&device, bytes).unwrap(), |_, _| {});
    }

    #[test]
    fn contents_stay_over_chunks(ops in ops()) {
        let _turn = turn();
        let device = Faulty::with_chunks(usize::MAX);
        run(&device, &ops, |bytes, seed| Array::full(&device, bytes, seed).unwrap(), contents);
        device.assert_clean();
    }
}

/// Memory that scopes leave idle serves every scope and size.
#[test]
fn scopes_share_memory() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    for name in ["shares a", "shares b", "shares c"] {
        cache_scope!(name = name, {
            let _large = Array::<u8, _>::zeros(&device, 40 * MIB).unwrap();
            let _small = [(); 10].map(|()| Array::<u8, _>::zeros(&device, MIB).unwrap());
        });
    }
    assert_eq!(device.memory().bytes, 50 << 20);
    let _ = invalidate_all();
    assert_eq!(device.memory().bytes, 0);
}

/// One entry of each of these scopes, whose arrays take 64 MiB.
fn in_turn(device: &Virtual, names: &[String]) {
    for name in names {
        Scope::new(name).run(|| drop([(); 16].map(|()| Array::<u8, _>::zeros(device, 4 * MIB).unwrap())));
    }
}

/// Scopes that are planned and take turns on one queue use the same memory.
#[test]
fn scopes_that_take_turns_share_the_memory_of_their_plans() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    let names: Vec<String> = (0..8).map(|number| format!("takes turns {number}")).collect();
    (0..40).for_each(|_| in_turn(&device, &names));
    let (before, planned) = (device.memory(), Scope::new(&names[0]).stats().unwrap().served.planned.allocations);
    (0..20).for_each(|_| in_turn(&device, &names));
    let (after, since) = (device.memory(), Scope::new(&names[0]).stats().unwrap().served.planned.allocations - planned);
    assert!(after.bytes <= 96 << 20, "{} bytes are reserved", after.bytes);
    assert_eq!(after.times_taken(), before.times_taken(), "calls of the device");
    assert_eq!(since, 20 * 16, "all allocations are planned");
    let _ = invalidate_all();
}

/// A scope that another one is around uses the memory that the outer plan leaves idle, and the other way round.
#[test]
fn a_scope_inside_another_one_uses_its_idle_arena() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    let step = || drop([(); 16].map(|()| Array::<u8, _>::zeros(&device, 4 * MIB).unwrap()));
    let (outer, inner) = (Scope::new("around, at first"), Scope::new("inside, later"));
    outer.run(|| {
        for _ in 0..4 {
            (0..30).for_each(|_| step());
            (0..20).for_each(|_| inner.run(step));
        }
    });
    let shares = [&outer, &inner].map(|scope| scope.stats().unwrap().served.planned_share());
    assert!(shares.iter().all(|&share| share > 0.7), "{shares:?} are planned");
    let reserved = device.memory().peak_bytes;
    assert!(reserved <= 72 << 20, "{reserved} bytes are reserved");
    let _ = invalidate_all();
}

/// A step keeps its plan if it begins with another scope, which lacks memory in each step.
#[test]
fn a_step_that_begins_with_another_scope_keeps_its_plan() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    let work = |arrays: usize| {
        (0..arrays).for_each(|_| drop([(); 8].map(|()| Array::<u8, _>::zeros(&device, 16 * MIB).unwrap())))
    };
    let (outer, inner) = (Scope::new("begins with another"), Scope::new("the other"));
    for _ in 0..60 {
        outer.run(|| {
            inner.run(|| work(1));
            work(4);
        });
    }
    let shares = [&outer, &inner].map(|scope| scope.stats().unwrap().served.planned_share());
    assert!(shares.iter().all(|&share| share > 0.8), "{shares:?} are planned");
    let _ = invalidate_all();
}

/// A backward pass has its peak when the activations of the forward pass are gone. It gets no arena beside all of them.
#[test]
fn an_arena_needs_no_memory_that_is_never_in_use_at_once() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    let array = || Array::<u8, _>::zeros(&device, 4 * MIB).unwrap();
    let (forward, backward) = (Scope::new("forward, first"), Scope::new("backward, second"));
    for _ in 0..30 {
        let mut activations = forward.run(|| Vec::from([(); 16].map(|()| array())));
        backward.run(|| {
            let gradient = |activation| {
                drop(activation);
                array()
            };
            drop(activations.drain(..).rev().map(gradient).collect::<Vec<_>>());
        });
    }
    let reserved = device.memory().peak_bytes;
    // A ring with the activations may keep the half of it that is idle.
    assert!(reserved <= 96 << 20, "{reserved} bytes are reserved, and 64 MiB are in use at most");
    let _ = invalidate_all();
}

/// Small arenas stay beside the arena of another scope, so nothing changes hands.
#[test]
fn a_little_scope_keeps_its_arena_beside_a_large_one() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    let entries = |name: &str, bytes: usize| {
        Scope::new(name).run(|| drop([(); 16].map(|()| Array::<u8, _>::zeros(&device, bytes).unwrap())));
    };
    for _ in 0..40 {
        entries("large, in turn", 16 * MIB);
        entries("little, in turn", 64 << 10);
    }
    let arenas = ["large, in turn", "little, in turn"].map(|name| Scope::new(name).stats().unwrap().plan.arena_bytes);
    assert_eq!(arenas, [256 << 20, 1 << 20]);
    let _ = invalidate_all();
}

/// An invalidation keeps the memory that other scopes need, and gives the rest back.
#[test]
fn what_other_scopes_need_stays() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    for (name, bytes) in [("needs little", 10 * MIB), ("needs much", 100 * MIB)] {
        cache_scope!(name = name, { drop(Array::<u8, _>::zeros(&device, bytes).unwrap()) });
    }
    assert_eq!(invalidate("needs much").bytes, 100 * MIB as u64);
    let held = device.memory().bytes as usize;
    assert!((10 * MIB..30 * MIB).contains(&held), "{held}");
    let _ = invalidate_all();
}

/// Idle blocks in keyed lists stay below a share of the scope's peak in use.
#[test]
fn keyed_lists_keep_to_their_budget() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    cache_scope!("budget", {
        drop(Array::<u8, _>::zeros(&device, 256 * MIB).unwrap());
        for kib in 1..400 {
            drop(Array::<u8, _>::zeros(&device, kib << 10).unwrap());
            let idle = stats("budget").unwrap().idle_bytes;
            assert!(idle <= (256 << 20) / 1024, "{idle} bytes are idle");
        }
        let before = stats("budget").unwrap();
        drop(Array::<u8, _>::zeros(&device, 399 << 10).unwrap());
        assert_eq!(supplied(&before) + 1, supplied(&stats("budget").unwrap()), "too large for the lists");
    });
    let _ = invalidate_all();
}

/// If the device has no other pages, free pages move to the request that needs them.
#[test]
fn a_full_device_is_used_to_its_end() {
    let _turn = turn();
    let device = Virtual::new(100 * MIB);
    cache_scope!("full", {
        let mut blocks: Vec<_> = (0..50).map(|_| Some(Array::<u8, _>::zeros(&device, 2 * MIB).unwrap())).collect();
        blocks.iter_mut().step_by(2).for_each(|block| *block = None);
        let _large = Array::<u8, _>::zeros(&device, 16 * MIB).unwrap();
        let error = Array::<u8, _>::zeros(&device, 64 * MIB).unwrap_err();
        assert!(error.is_out_of_memory(), "{error}");
    });
    let _ = invalidate_all();
    assert_eq!(device.memory().bytes, 0);
    device.synchronize().unwrap();
}

/// Every call of the device may fail: nothing panics, nothing is lost.
#[test]
fn every_call_may_fail_over_chunks() {
    let _turn = turn();
    for call in 1..30 {
        for failure in [Failure::Device, Failure::OutOfMemory] {
            let device = Faulty::with_chunks(usize::MAX);
            device.arm(Fault::once(call, failure));
            for round in 0..3 {
                cache_scope!("failing", {
                    let held: Vec<_> =
                        (1..8).map(|size| Array::<u8, _>::full(&device, size * MIB / 2, size as u8)).collect();
                    held.iter().flatten().for_each(|array| drop(array.to_vec()));
                });
                if round == 1 {
                    let _ = (invalidate("failing"), device.trim());
                }
            }
            device.disarm();
            let _ = invalidate_all();
            let _ = (device.trim(), device.synchronize());
            let stats = stats("failing").unwrap();
            assert_eq!((stats.busy_blocks, stats.idle_blocks), (0, 0), "call {call}");
            assert_eq!(device.trim(), 0);
            device.assert_clean();
        }
    }
}

#[test]
fn many_large_arrays_take_few_pieces_of_pages() {
    let _turn = turn();
    let device = Virtual::new(80 << 30);
    let entry = |arrays: usize| {
        cache_scope!("range, many large arrays", {
            drop((0..arrays).map(|_| Array::<u8, _>::zeros(&device, 100_000_000).unwrap()).collect::<Vec<_>>());
        });
    };
    let taken = || (device.memory().times_taken(), device.memory().times_given_back());
    entry(200);
    let first = taken();
    assert!(first.0 <= 450 && first.1 == 0, "{first:?} pieces taken and given back for 20 GB");
    // A plan needs a little less than the first entries, and part of the piece in which its arena ends.
    (0..5).for_each(|_| entry(200));
    let warm = taken();
    assert!(warm.0 <= first.0 + 1 && warm.1 <= 4, "{warm:?} pieces taken and given back by warm entries");
    entry(220);
    assert!(taken().0 - first.0 <= 90, "{} pieces for 2 GB more", taken().0 - first.0);
    invalidate("range, many large arrays");
    assert_eq!(device.memory().bytes, 0);
    device.synchronize().unwrap();
}
