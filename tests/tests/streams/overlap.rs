//! Scopes on two streams that work at the same time. Neither stream waits for the other because of memory. A stream that
//! takes memory back waits only for the uses of that memory.
//!
//! Gates hold work back until a test opens them, so that every superfluous wait shows, whatever the timing.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use gpucache::prelude::*;
use gpucache::{Recycle, Scope};
#[cfg(feature = "cuda")]
use gpucache_tests::process::in_one_of;
use gpucache_tests::turn;

use super::{calls, since};

/// Far longer than the work of a test takes once nothing holds it back.
const LONG: Duration = Duration::from_secs(120);
/// Entries after which a scope has its plan, and a ring for carried arrays.
const WARM: usize = 24;

/// Whether the stream finishes all of its current work soon.
fn is_done(stream: &Host) -> bool {
    let (tell, told) = channel();
    stream.launch((), move |()| _ = tell.send(())).unwrap();
    told.recv_timeout(LONG).is_ok()
}

fn load(loader: &Host, number: u32) -> Array<u32, Host> {
    let mut batch = Array::zeros(loader, 10_000).unwrap();
    loader.launch(&mut batch, move |batch| batch.fill(number)).unwrap();
    batch
}

/// A training step. Its work on the batch begins when the gate is opened or dropped.
fn train(trainer: &Host, sum: &mut Array<u32, Host>, batch: &Array<u32, Host>, gate: Receiver<()>) {
    let mut gradient = Array::<u32, _>::zeros(trainer, 10_000).unwrap();
    let work = move |(gradient, batch): (&mut [u32], &[u32])| {
        assert!(gate.recv().is_err());
        gradient.copy_from_slice(batch);
    };
    trainer.launch((&mut gradient, batch), work).unwrap();
    trainer
        .launch((sum, &gradient), |(sum, gradient)| sum.iter_mut().zip(gradient).for_each(|(s, g)| *s += g))
        .unwrap();
}

/// Loads one batch ahead, and holds each training step back until the next batch is loaded.
fn load_ahead(name: &str, recycle: Recycle) -> [u64; 3] {
    let (loader, trainer) = (Host::new_stream().unwrap(), Host::new_stream().unwrap());
    let names = ["loading", "training"].map(|what| format!("{name}, {what}"));
    let (loading, training) = (Scope::new(&names[0]).recycle(recycle), Scope::new(&names[1]));
    let mut sum = Array::zeros(&trainer, 10_000).unwrap();
    let mut batch = loading.run(|| load(&loader, 1));
    let mut before = [0; 3];
    for step in 1..2 * WARM {
        if step == WARM {
            before = calls(&loader);
        }
        let (open, gate) = channel();
        training.run(|| train(&trainer, &mut sum, &batch, gate));
        batch = loading.run(|| load(&loader, step as u32 + 1));
        assert!(is_done(&loader), "{name}: batch {step} waits for the step before it");
        drop(open);
    }
    let used = since(&loader, before);
    assert_eq!(sum[9_999] as usize, (1..2 * WARM).sum());
    let supplied = |scope: &Scope<'_>| gpucache_tests::supplied(&scope.stats().unwrap());
    assert!(supplied(&loading) <= WARM as u64 && supplied(&training) <= WARM as u64);
    used
}

#[test]
fn a_batch_is_loaded_while_the_one_before_it_is_trained_on() {
    let _turn = turn();
    for recycle in [Recycle::Auto, Recycle::Keyed, Recycle::Range] {
        let [events, _, waits] = load_ahead(&format!("{recycle:?}"), recycle);
        // The step of each batch waits for it, and so does the batch that gets its memory next, unless the step is done by then. A wait
        // needs an event. A look for idle memory, which a scope takes more and more rarely, may record another event.
        let most = 2 * WARM as u64;
        assert!(waits <= most, "{recycle:?}: {waits} waits");
        assert!(events <= most + WARM as u64 / 4, "{recycle:?}: {events} events, {waits} waits");
    }
}

/// Work on the stream's own arrays, which no other stream sees. Sizes may vary from entry to entry.
fn work(stream: &Host, salt: usize) {
    let mut kept = Vec::new();
    let mut last = Array::<u32, _>::zeros(stream, 1000).unwrap();
    for i in 0..8 {
        let mut next = Array::<u32, _>::zeros(stream, 20_000 * (1 + i % 3) + 1000 * ((salt * 7 + i * 5) % 11)).unwrap();
        stream.launch((&mut next, &last), |(next, last)| next[0] = last[0] + 1).unwrap();
        kept.push(std::mem::replace(&mut last, next));
    }
}

/// The number of entries of each scope in a window.
const WINDOW: usize = WARM;
/// On a busy machine work lags behind, and the scopes find their own memory later.
const MOST_WINDOWS: usize = 60;

/// Calls and planned allocations in each window of entries, for two scopes that are entered in turn, each on its own stream.
fn in_turn(name: &str, varies: bool, waits_for_the_host: bool) -> impl Iterator<Item = ([u64; 3], u64)> {
    let streams = [Host::new_stream().unwrap(), Host::new_stream().unwrap()];
    let names = ["one", "other"].map(|which| format!("{name}, {which}"));
    let served = move |names: &[String; 2]| -> u64 {
        names.iter().map(|name| gpucache::stats(name).map_or(0, |stats| stats.served.planned.allocations)).sum()
    };
    (0..MOST_WINDOWS).map(move |window| {
        let (before, planned) = (calls(&streams[0]), served(&names));
        for entry in window * WINDOW..(window + 1) * WINDOW {
            for (name, stream) in names.iter().zip(&streams) {
                Scope::new(name).run(|| work(stream, if varies { entry } else { 0 }));
                if waits_for_the_host {
                    stream.synchronize().unwrap();
                }
            }
        }
        (since(&streams[0], before), served(&names) - planned)
    })
}

#[test]
fn scopes_on_two_streams_that_take_turns_keep_to_their_own_memory() {
    let _turn = turn();
    for waits in [false, true] {
        // While work lags behind, a stream has no idle pages, so a scope may get no arena. The range then serves it without calls.
        let least = if waits { 2 * 9 * WINDOW } else { 9 * WINDOW };
        let mut seen = Vec::new();
        let is_reached = in_turn(&format!("same {waits}"), false, waits).any(|window| {
            seen.push(window);
            window.0 == [0; 3] && window.1 >= least as u64
        });
        assert!(is_reached, "waits: {waits}; calls and planned allocations of each window: {seen:?}");
    }
}

#[test]
fn no_stream_waits_for_another_one_whatever_sizes_come() {
    let _turn = turn();
    for waits in [false, true] {
        for (window, ([_, _, ordered], _)) in in_turn(&format!("varying {waits}"), true, waits).enumerate().skip(2) {
            assert_eq!(ordered, 0, "waits: {waits}, window {window}");
        }
    }
}

/// Fills memory with arrays of two streams by turns, and drops them, again and again with larger arrays, while `delay` holds back the work.
/// Returns the most bytes that were reserved.
#[cfg(feature = "cuda")]
fn fill_by_turns(streams: &[Cuda; 2], scope: &Scope<'_>, mut delay: impl FnMut(&Cuda)) -> u64 {
    let mut reserved = 0;
    for mib in 1..=8 {
        streams.iter().for_each(&mut delay);
        scope.run(|| {
            let turns = (0..24 / mib).flat_map(|_| streams);
            let arrays: Vec<_> = turns.map(|stream| stream.zeros::<u8>(mib << 20).unwrap()).collect();
            reserved = reserved.max(streams[0].memory().bytes);
            drop(arrays);
        });
    }
    reserved
}

/// The arrays of one stream lie between those of the other, and slow work holds all of them. So no stream finds long memory of its own. Before,
/// each size took new memory.
#[cfg(feature = "cuda")]
#[test]
fn streams_in_turn_share_their_memory() {
    use gpucache_tests::gpu::{Gpu, SLOWLY};

    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    // A wait for streams has a limit, which slow work exceeds on a busy machine.
    for recycle in [Recycle::Auto, Recycle::Range] {
        in_one_of(3, || {
            let name = format!("by turns, {recycle:?}");
            let streams = [gpu.new_stream(), gpu.new_stream()];
            let mut slow = gpucache::uncached!({ streams[0].zeros::<u32>(64).unwrap() });
            let delay = |stream: &Cuda| kernels.fill(stream.stream(), &mut slow, 1, SLOWLY);
            let mib = fill_by_turns(&streams, &Scope::new(&name).recycle(recycle), delay) >> 20;
            streams.iter().for_each(|stream| stream.synchronize().unwrap());
            let _ = invalidate(&name);
            gpu.new_stream().trim();
            // Auto also has an arena, which lies where pages move.
            assert!(mib <= 3 * 48, "{recycle:?}: {mib} MiB for 48");
        });
    }
}
