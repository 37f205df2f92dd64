//! The executables of graphs take memory of the device. In a shortage they give way: the blocks run directly, and are captured again later.
//! The tests set limits of the device and of the process, so only one of them runs at a time.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpucache::device::set_process_limit;
use gpucache::graph::CapturedScope;
use gpucache::offload::Placed;
use gpucache::prelude::*;
use gpucache::stats::ReclaimStep;
use gpucache::{Limit, Recycle, Result, Scope};
use gpucache_tests::captured::Adds;
use gpucache_tests::gpu::{Gpu, is_made_up};
use gpucache_tests::madeup;
use gpucache_tests::meanwhile::End;

const LEN: usize = 4096;
const KEYS: u32 = 40;
const MIB: usize = 1 << 20;

/// A stream of the made-up driver, and a captured scope with a graph for each key. Together they take 5.4 MiB. A real driver may keep small
/// executables in memory that it holds already, so nothing gives way there.
struct Bed {
    stream: Cuda,
    scope: CapturedScope<u32, Cuda>,
    input: Array<u32, Cuda>,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.stream.set_limit(Limit::NONE).unwrap();
        self.stream.set_allocation_timeout(Duration::ZERO);
        set_process_limit(Limit::NONE).unwrap();
    }
}

/// `x + 2 + key`, by way of an array of the plan.
fn step(x: &Array<u32, Cuda>, key: u32) -> Result<Array<u32, Cuda>> {
    let gpu = x.device().clone();
    let mut first = gpu.zeros(x.len())?;
    gpu.add(&mut first, x, 2)?;
    let mut second = gpu.zeros(x.len())?;
    gpu.add(&mut second, &first, key)?;
    Ok(second)
}

impl Bed {
    fn new(name: &str) -> Option<Bed> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let gpu = Gpu::get().filter(|_| is_made_up())?;
        let stream = gpu.new_stream();
        let input = Array::full(&stream, LEN, 1u32).unwrap();
        let scope = CapturedScope::new(&stream, &format!("captured shortage: {name}"));
        let mut bed = Bed { stream, scope, input, _turn: turn };
        (0..8).for_each(|_| bed.run_all());
        assert_eq!(bed.scope.stats().graphs, KEYS as usize, "{}", bed.scope.stats());
        bed.settle();
        Some(bed)
    }

    /// All memory that nobody needs goes back to the device.
    fn settle(&self) {
        self.stream.synchronize().unwrap();
        self.stream.trim();
    }

    fn run(&mut self, key: u32) {
        let output = self.scope.run(key, &self.input, |input| step(input, key)).unwrap();
        assert_eq!(output.to_vec().unwrap(), vec![3 + key; LEN], "key {key}: {}", self.scope.stats());
    }

    fn run_all(&mut self) {
        (0..KEYS).for_each(|key| self.run(key));
    }

    fn bytes(&self) -> usize {
        self.scope.stats().executable_bytes as usize
    }

    /// Lets the device reserve so many more bytes than now.
    fn leave(&self, bytes: usize) {
        self.stream.set_limit(Limit::hard(self.stream.memory().bytes + bytes as u64)).unwrap();
    }

    /// Arrays of the innermost scope that use half of each of so many pages of 2 MiB.
    fn half_used_pages(&self, pages: usize) -> Vec<Array<u8, Cuda>> {
        let arrays: Vec<_> = (0..2 * pages).map(|_| self.stream.zeros(MIB).unwrap()).collect();
        let rest = arrays.into_iter().step_by(2).collect();
        self.settle();
        rest
    }

    /// One allocation that needs the memory of at least `bytes` bytes of executables.
    fn take(&self, bytes: usize) {
        self.settle();
        self.leave(0);
        drop(self.stream.zeros::<u8>(bytes).unwrap());
        self.stream.set_limit(Limit::NONE).unwrap();
    }
}

#[test]
fn executables_give_way_and_come_back() {
    let Some(mut bed) = Bed::new("back") else { return };
    bed.leave(8 * MIB);
    let arrays: Vec<Array<u8, Cuda>> = std::iter::from_fn(|| bed.stream.zeros(MIB).ok()).collect();
    let short = bed.scope.stats();
    assert!(short.executable_bytes < 2 * MIB as u64, "all but a page are arrays now: {short}");
    assert!(bed.stream.memory().bytes <= bed.stream.memory().limit.unwrap(), "{}", bed.stream.memory());
    let used = bed.stream.stats().reclaim.step(ReclaimStep::Graphs);
    assert!(used.served > 0 && used.freed_bytes > 2 * MIB as u64, "{used:?}");
    drop(arrays);
    // Each key lost its graph once, so it is captured again soon.
    (0..4).for_each(|_| bed.run_all());
    let after = bed.scope.stats();
    assert_eq!((after.graphs, after.lost >= 25), (KEYS as usize, true), "{after}");
    bed.run_all();
    assert_eq!(bed.scope.stats().launches, after.launches + u64::from(KEYS), "{}", bed.scope.stats());
}

#[test]
fn graphs_that_are_too_small_to_help_stay() {
    let Some(bed) = Bed::new("small") else { return };
    let before = bed.bytes();
    bed.leave(8 * MIB);
    for bytes in [64 * MIB, 20 * MIB] {
        assert!(bed.stream.zeros::<u8>(bytes).is_err());
    }
    assert_eq!(bed.bytes(), before, "{}", bed.scope.stats());
}

/// A scope takes whole pages, so more has to go than the bytes that are missing.
#[test]
fn whole_pages_count() {
    let Some(bed) = Bed::new("pages") else { return };
    let _inside = Scope::new("captured shortage: other").enter();
    bed.leave(19 * MIB / 10);
    let array = bed.stream.zeros::<u8>(5 * MIB / 2);
    assert!(array.is_ok(), "{}", array.unwrap_err());
}

/// Free memory that lies apart does not count.
#[test]
fn gaps_do_not_count() {
    let Some(bed) = Bed::new("gaps") else { return };
    let _inside = Scope::new("captured shortage: gaps").enter();
    let _rest = bed.half_used_pages(8);
    bed.leave(0);
    let array = bed.stream.zeros::<u8>(2 * MIB);
    assert!(array.is_ok(), "{}", array.unwrap_err());
}

/// A request that idle memory in half-used pages does not help, or that the driver refuses for its own reasons, fails without them.
#[test]
fn graphs_that_do_not_suffice_stay() {
    let Some(bed) = Bed::new("in vain") else { return };
    let before = bed.bytes();
    let _inside = Scope::new("captured shortage: in vain").enter();
    let _rest = bed.half_used_pages(16);
    bed.leave(0);
    for mib in [20, 12, 6] {
        assert!(bed.stream.zeros::<u8>(mib * MIB).is_err());
    }
    bed.stream.set_limit(Limit::NONE).unwrap();
    madeup::fail(c"cuMemCreate", 0, u64::MAX, 2);
    let refused = bed.stream.zeros::<u8>(100 * MIB);
    madeup::fail(c"cuMemCreate", 0, 0, 2);
    assert!(refused.is_err());
    assert_eq!(bed.bytes(), before, "{}", bed.scope.stats());
}

/// The memory is free once long work is done. The request waits for it, and graphs would not help.
#[test]
fn graphs_stay_while_a_request_waits_for_work() {
    let Some(bed) = Bed::new("work") else { return };
    let (gpu, before) = (Gpu::get().unwrap(), bed.bytes());
    let background = gpu.new_stream();
    let ranged = |stream: &Cuda, mib: usize| {
        Scope::new("captured shortage: work").recycle(Recycle::Range).run(|| stream.zeros::<u8>(mib * MIB)).unwrap()
    };
    let [first, _between, last] = [16, 2, 16].map(|mib| ranged(&background, mib));
    bed.settle();
    bed.leave(0);
    gpu.kernels().unwrap().hold(background.stream(), 1_000_000);
    drop((first, last));
    drop(ranged(&bed.stream, 32));
    assert_eq!(bed.bytes(), before, "{}", bed.scope.stats());
}

/// A capture of the program itself reserves memory for its arrays.
#[test]
fn a_capture_is_served() {
    let Some(bed) = Bed::new("capture") else { return };
    bed.leave(0);
    let graph = bed.stream.capture(|| bed.stream.zeros::<u8>(2 * MIB));
    assert!(graph.is_ok(), "{}", graph.unwrap_err());
}

#[test]
fn the_limit_of_the_process_counts_for_all_devices() {
    let Some(mut bed) = Bed::new("process") else { return };
    let host = Host::new_stream().unwrap();
    for (hosts, more, bytes) in [(64, 3, 6), (3, 0, 5)] {
        let others: Array<u8, Host> = Array::full(&host, hosts * MIB, 1u8).unwrap();
        bed.settle();
        let held = bed.stream.memory().bytes + host.memory().bytes;
        set_process_limit(Limit::hard(held + (more * MIB) as u64)).unwrap();
        let array = bed.stream.zeros::<u8>(bytes * MIB);
        assert!(array.is_ok(), "{bytes} MiB, {more} left: {}", array.unwrap_err());
        set_process_limit(Limit::NONE).unwrap();
        drop((array, others));
        (0..4).for_each(|_| bed.run_all());
    }
    bed.settle();
    set_process_limit(Limit::hard(bed.stream.memory().bytes + host.memory().bytes)).unwrap();
    let array = Array::full(&host, 5 * MIB / 2, 1u8);
    assert!(array.is_ok(), "an array of the host: {}", array.unwrap_err());
}

/// Memory that another thread drops, or has idle inside its scope, suffices only together with that of the graphs.
#[test]
fn executables_go_once_others_gave_memory() {
    let Some(mut bed) = Bed::new("together") else { return };
    let array = bed.stream.zeros::<u8>(16 * MIB).unwrap();
    bed.settle();
    bed.leave(0);
    bed.stream.set_allocation_timeout(Duration::from_secs(20));
    let waited = std::thread::scope(|threads| {
        threads.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            drop(array);
        });
        bed.stream.zeros::<u8>(20 * MIB)
    });
    assert!(waited.is_ok(), "dropped meanwhile: {}", waited.unwrap_err());
    bed.stream.set_allocation_timeout(Duration::ZERO);
    bed.stream.set_limit(Limit::NONE).unwrap();
    drop(waited);
    (0..4).for_each(|_| bed.run_all());

    let ((ready, is_ready), (go, may_go), other) = (channel(), channel::<()>(), bed.stream.clone());
    let thread = std::thread::spawn(move || {
        let scope = Scope::new("captured shortage: arena");
        let entry = || drop([(); 4].map(|()| other.zeros::<u8>(4 * MIB).unwrap()));
        (0..12).for_each(|_| scope.run(entry));
        other.synchronize().unwrap();
        let _inside = scope.enter();
        ready.send(()).unwrap();
        // An error means that the test has failed already.
        let _ = may_go.recv();
    });
    is_ready.recv().unwrap();
    bed.settle();
    bed.leave(0);
    let array = bed.stream.zeros::<u8>(20 * MIB);
    drop(go);
    thread.join().unwrap();
    assert!(array.is_ok(), "an arena: {}", array.unwrap_err());
}

/// Graphs that are launched often stay longest.
#[test]
fn hot_graphs_go_last() {
    let Some(mut bed) = Bed::new("hot") else { return };
    for _ in 0..50 {
        (0..10).for_each(|key| bed.run(key));
    }
    for _ in 0..4 {
        bed.take(700 << 10);
    }
    let graphs = bed.scope.stats().graphs;
    assert!((10..25).contains(&graphs), "{}", bed.scope.stats());
    let launches = bed.scope.stats().launches;
    (0..10).for_each(|key| bed.run(key));
    assert_eq!(bed.scope.stats().launches, launches + 10, "{}", bed.scope.stats());
}

/// A key that loses its graph again and again is captured less often. Many launches make up for a loss.
#[test]
fn captures_follow_losses_more_and_more_slowly() {
    let Some(mut bed) = Bed::new("losses") else { return };
    let mut waits = Vec::new();
    for launches in [0, 0, 0, 0, 0, 0, 300, 0] {
        (0..launches).for_each(|_| bed.run(0));
        bed.take(bed.bytes());
        // A new key is captured first, and finds the lost graphs.
        bed.run(KEYS + 1);
        let is_direct = |bed: &mut Bed| {
            let before = bed.scope.stats().direct;
            bed.run(0);
            bed.scope.stats().direct > before
        };
        waits.push((0..).take_while(|_| is_direct(&mut bed)).count());
    }
    assert_eq!(waits[..6], [1, 2, 4, 8, 16, 32], "{waits:?}");
    assert!(waits[6] <= 8 && waits[7] > waits[6], "{waits:?}");
}

/// One thread launches graphs. Another one takes all memory again and again, so executables go at any moment.
#[test]
fn executables_go_while_another_thread_launches() {
    let Some(mut bed) = Bed::new("meanwhile") else { return };
    bed.leave(12 * MIB);
    let (is_over, other) = (AtomicBool::new(false), Gpu::get().unwrap().new_stream());
    std::thread::scope(|threads| {
        let _end = End(&is_over);
        threads.spawn(|| {
            while !is_over.load(Relaxed) {
                drop(std::iter::from_fn(|| other.zeros(MIB).ok()).collect::<Vec<Array<u8, Cuda>>>());
                std::thread::yield_now();
            }
        });
        for key in (0..12).flat_map(|_| 0..KEYS) {
            let values = bed.scope.run(key, &bed.input, |input| step(input, key)).and_then(|output| output.to_vec());
            match values {
                Ok(values) => assert_eq!(values, vec![3 + key; LEN], "key {key}: {}", bed.scope.stats()),
                // The other thread has all memory now.
                Err(error) => assert!(error.is_out_of_memory(), "{error}"),
            }
        }
    });
    bed.stream.set_limit(Limit::NONE).unwrap();
    bed.run_all();
}

/// A stream of the host runs the work that it captures. Meanwhile the memory of arrays that leave stays. In a shortage it goes, and the run
/// gets no graph.
#[test]
fn a_capturing_run_on_the_host_needs_no_more_memory_than_others() {
    const ELEMENTS: usize = 1 << 17;
    let host = Host::new_stream().unwrap();
    host.set_limit(Limit::hard(host.memory().bytes + 8 * ELEMENTS as u64 * 4)).unwrap();
    let weights: Vec<_> =
        (0..12).map(|value| Placed::new(Array::full(&host, ELEMENTS, value).unwrap()).unwrap()).collect();
    let mut scope = CapturedScope::new(&host, "captured shortage: host");
    for value in (0..12).cycle().take(480) {
        let copy = scope.run((), &host.zeros::<u32>(3).unwrap(), |_| {
            let weight = weights[value].fetch()?;
            let mut copy = host.zeros(ELEMENTS)?;
            host.add(&mut copy, &weight, 1)?;
            Ok::<_, gpucache::Error>(copy)
        });
        assert_eq!(copy.unwrap()[7], value as u32 + 1);
    }
    host.set_limit(Limit::NONE).unwrap();
}
