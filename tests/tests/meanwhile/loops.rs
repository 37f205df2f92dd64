//! Entries with loops, while other threads and handlers disturb their scopes. Contents stay, and all memory can be freed.
//!
//! `PROGRAMS` sets the number of programs. `SEED=n` runs only the n-th one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use gpucache::device::Virtual;
use gpucache::prelude::*;
use gpucache::{Recycle, Scope, invalidate, stats, trace};
use gpucache_tests::meanwhile::{beside, disturb};
use gpucache_tests::paged::Paged;
use gpucache_tests::play::entries::bound;
use gpucache_tests::play::loop_programs::{kind, play, program};
use gpucache_tests::play::{Checked, Op, Player};
use gpucache_tests::{seeds, turn};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const PROGRAMS: u64 = 24;
const SCOPES: usize = 2;
const MIB: usize = 1 << 20;

fn names(test: &str) -> [String; SCOPES] {
    [0, 1].map(|scope| format!("loops meanwhile, {test}, {scope}"))
}

fn player<D: Checked>(device: D, test: &str) -> Player<D> {
    let mut player = Player::new(device, names(test));
    player.is_disturbed = true;
    player
}

fn meanwhile<D: Checked>(seed: u64, device: &D, test: &str, limit: u64) {
    let _turn = turn();
    let rng = &mut Rng::with_seed(seed);
    let kind = kind(rng, (1, 12 << 10));
    let entries = program(rng, &kind, rng.clone().bool());
    let mut player = player(device.clone(), test);
    player.skips_failures = rng.bool();
    player.limit =
        (rng.usize(0..4) == 0).then(|| entries.iter().map(|entry| bound(&entry.ops)).max().unwrap_or(0) * 5 / 4);
    let names = names(test);
    beside(rng, |number| disturb(device, &names, number), || _ = play(&mut player, &entries, |_, _| ()));
    drop(trace::stop());
    let is_expected =
        |error: &gpucache::Error| error.is_out_of_memory() && (player.limit.is_some() || limit < u64::MAX);
    assert!(player.skipped.iter().all(is_expected), "{:?}", player.skipped);
    player.finish();
}

#[test]
fn contents_stay() {
    let devices = [4, 8, 24, 60].map(|pages| (Paged::new(pages), pages));
    seeds::each(PROGRAMS, 1, |seed| {
        let (device, pages) = &devices[seed as usize % 4];
        meanwhile(seed, device, "paged", *pages);
    });
}

#[test]
fn rules_are_kept() {
    seeds::each(PROGRAMS, 1, |seed| meanwhile(seed, &Virtual::new(1 << 46), "checked", u64::MAX));
}

#[test]
fn plans_serve_fast() {
    seeds::each(PROGRAMS, 1, |seed| meanwhile(seed, &Virtual::unchecked(1 << 46), "unchecked", u64::MAX));
}

/// A handler allocates in the scopes, keeps some of its arrays and drops them later, and invalidates the scopes.
#[test]
fn handlers_work_in_the_scopes() {
    seeds::each(PROGRAMS, 1, |seed| {
        let _turn = turn();
        let rng = &mut Rng::with_seed(seed);
        let kind = kind(rng, (64 << 10, 16 << 20));
        let entries = program(rng, &kind, rng.clone().bool());
        let most = entries.iter().map(|entry| bound(&entry.ops)).max().unwrap_or(0);
        let device = Virtual::new(((most as f64 * (0.6 + 0.8 * rng.f64())) as usize).next_multiple_of(2 << 20));
        let names = names("handlers");
        let (own, held, state) = (device.clone(), Arc::new(Mutex::new(Vec::new())), Mutex::new(rng.fork()));
        let (kept, handled) = (held.clone(), names.clone());
        let handler = device.on_pressure(move |_| {
            let mut rng = state.lock().unwrap();
            let scope = Scope::new(&handled[rng.usize(0..SCOPES)]);
            match rng.usize(0..6) {
                0 => _ = scope.invalidate(),
                1 => kept.lock().unwrap().clear(),
                2 => kept.lock().unwrap().extend(Scope::new("loops meanwhile, kept").run(|| own.zeros::<u8>(1 << 20))),
                3 => _ = scope.recycle(Recycle::Keyed).run(|| own.zeros::<u8>(1 << 20).map(drop)),
                4 => _ = own.trim(),
                _ => _ = scope.run(|| own.zeros::<u8>(rng.usize(0..4 << 20)).map(drop)),
            }
        });
        let mut player = player(device.clone(), "handlers");
        player.skips_failures = rng.bool();
        play(&mut player, &entries, |_, _| ());
        drop(handler);
        held.lock().unwrap().clear();
        assert!(player.skipped.iter().all(gpucache::Error::is_out_of_memory), "{:?}", player.skipped);
        _ = invalidate("loops meanwhile, kept");
        player.finish();
    });
}

/// A subscriber that allocates in the scope that just told something, also between two iterations. It keeps its last few arrays.
struct Allocating {
    device: Virtual,
    kept: Mutex<Vec<Array<u8, Virtual>>>,
    told: Arc<AtomicU64>,
}

impl Subscriber for Allocating {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "gpucache"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        let told = self.told.fetch_add(1, SeqCst);
        let array = self.device.zeros::<u8>(1000 * (told as usize % 7)).unwrap();
        let mut kept = self.kept.lock().unwrap();
        kept.push(array);
        if kept.len() > 3 {
            kept.clear();
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_subscriber_allocates_between_iterations() {
    let told = Arc::new(AtomicU64::new(0));
    seeds::each(PROGRAMS, 1, |seed| {
        let _turn = turn();
        let rng = &mut Rng::with_seed(seed);
        let kind = kind(rng, (1, 12 << 10));
        let entries = program(rng, &kind, rng.clone().bool());
        let device = Virtual::new(1 << 46);
        let allocating = Allocating { device: device.clone(), kept: Mutex::default(), told: told.clone() };
        let first = stats("loops meanwhile, told, 0").map_or(0, |stats| stats.busy_bytes);
        assert_eq!(first, 0);
        tracing::subscriber::with_default(allocating, || {
            for entry in &entries {
                let name = &names("told")[0];
                let _inside = Scope::new(name).enter();
                replay(&device, &entry.ops);
            }
        });
        _ = invalidate(&names("told")[0]);
        device.trim();
        device.synchronize().unwrap();
        assert_eq!((device.memory().bytes, stats("loops meanwhile, told, 0").unwrap().busy_blocks), (0, 0));
    });
    assert!(told.load(SeqCst) > 10, "nothing was told");
}

/// Allocates and drops as the operations say, and leaves the others out.
fn replay(device: &Virtual, ops: &[Op]) {
    let mut slots = HashMap::new();
    for op in ops {
        match *op {
            Op::Allocate { slot, bytes } => drop(slots.insert(slot, device.zeros::<u8>(bytes).unwrap())),
            Op::Drop(slot) => drop(slots.remove(&slot)),
            _ => {}
        }
    }
}

/// A loop is left for the loop around it within a request. Its arena goes back to the range at once: it is busy, idle, or free at each moment,
/// so that another thread can have it.
#[test]
fn the_arena_of_a_loop_that_is_left_is_free_at_once() {
    let _turn = turn();
    let device = Virtual::new(256 * MIB);
    let _entry = Scope::new("left").enter();
    let inner = || {
        let mut last = None;
        for number in 0..40 {
            let new = device.zeros::<u8>((1 + (number * number * 7) % 61) * MIB).unwrap();
            drop(last.replace(new));
        }
    };
    (0..20).for_each(|_| inner());
    for round in 0..10 {
        (0..4).for_each(|_| inner());
        for number in 0..60 {
            drop(device.zeros::<u8>(5000 + 777 * (number * number % 23)).unwrap());
            let (blocks, scope) = (device.stats().range.block_bytes, stats("left").unwrap());
            let lost = blocks.saturating_sub(scope.busy_bytes + scope.idle_bytes);
            assert!(
                lost < MIB as u64,
                "{lost} bytes are in blocks, and neither busy nor idle, in round {round}, {number}"
            );
        }
    }
    std::thread::scope(|threads| threads.spawn(|| device.zeros::<u8>(200 * MIB).map(drop)).join().unwrap()).unwrap();
}
