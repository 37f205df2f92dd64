//! Statistics of arrays that rest on the host are true: how long streams waited, and how much of the copies was hidden.
//!
//! On the host a stream is a thread, so its waits can be measured with the clock.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gpucache::device::{Device, Virtual};
use gpucache::{
    Scope,
    offload::{Placed, Placement},
    prelude::*,
    stats,
    stats::OffloadStats,
};
use gpucache_tests::process::in_one_of;
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;
/// Bytes that take milliseconds to copy.
const LARGE: usize = 128 << 20;

/// The statistics between two moments.
struct Told {
    before: OffloadStats,
    begun: Instant,
}

impl Told {
    fn begin(host: &Host) -> Told {
        host.synchronize().unwrap();
        Told { before: host.stats().offload, begun: Instant::now() }
    }

    /// The total time, the time waited, and the time of the copies.
    fn end(self, host: &Host) -> [Duration; 3] {
        host.synchronize().unwrap();
        let (took, after) = (self.begun.elapsed(), host.stats().offload);
        [took, after.waited - self.before.waited, after.copying - self.before.copying]
    }
}

/// A stream without the limit that a failed test may have left.
fn stream() -> Host {
    let host = Host::new_stream().unwrap();
    host.set_limit(u64::MAX).unwrap();
    host
}

/// A large array on the host, whose pages were touched on both sides.
fn away(host: &Host) -> Placed<u8, Host> {
    let mut array = Placed::<u8, _>::zeros(host, LARGE).unwrap();
    array.fetch_mut().unwrap().fill(1);
    array.set_placement(Placement::Host).unwrap();
    array.choose_placement(Placement::Auto);
    array
}

fn work(host: &Host, time: Duration) {
    host.launch((), move |()| std::thread::sleep(time)).unwrap();
}

#[test]
fn what_is_not_hidden_was_waited_for() {
    let _turn = turn();
    in_one_of(5, || {
        let host = stream();
        let array = away(&host);
        let told = Told::begin(&host);
        let guard = array.fetch().unwrap();
        let [took, waited, copying] = told.end(&host);
        println!("in: {waited:?} of {took:?}, the copy {copying:?}");
        assert!(waited <= took && waited >= took / 8, "{waited:?} of {took:?}");
        assert!(copying <= waited && copying >= waited / 4, "{copying:?} of {waited:?}");
        drop(guard);

        let mut array = array;
        array.fetch_mut().unwrap().fill(2);
        let told = Told::begin(&host);
        array.set_placement(Placement::Host).unwrap();
        let [took, waited, _] = told.end(&host);
        println!("out: {waited:?} of {took:?}");
        assert!(waited <= took && waited >= took / 8, "{waited:?} of {took:?}");
    });
}

#[test]
fn what_is_beside_work_is_hidden() {
    let _turn = turn();
    in_one_of(5, || {
        let host = stream();
        let arrays: Vec<_> = (0..4).map(|_| away(&host)).collect();
        let told = Told::begin(&host);
        arrays.iter().for_each(|array| array.set_placement(Placement::Device).unwrap());
        work(&host, Duration::from_millis(600));
        arrays.iter().for_each(|array| drop(array.fetch().unwrap()));
        let [took, waited, copying] = told.end(&host);
        println!("{waited:?} of {took:?}, the copies {copying:?}");
        // It need not be zero: a copying thread may have the processor for some milliseconds before the stream's thread continues.
        assert!(copying >= Duration::from_millis(8) && waited <= copying / 2, "{waited:?} of {copying:?}, in {took:?}");
    });
}

#[test]
fn of_a_copy_that_is_longer_than_the_work_the_rest_is_waited_for() {
    let _turn = turn();
    in_one_of(5, || {
        let host = stream();
        let arrays: Vec<_> = (0..4).map(|_| away(&host)).collect();
        let fetch_all = |time: Duration| {
            let told = Told::begin(&host);
            arrays.iter().for_each(|array| array.set_placement(Placement::Device).unwrap());
            work(&host, time);
            arrays.iter().for_each(|array| drop(array.fetch().unwrap()));
            let [took, waited, _] = told.end(&host);
            arrays.iter().for_each(|array| array.set_placement(Placement::Host).unwrap());
            (took, waited)
        };
        fetch_all(Duration::ZERO);
        let (alone, _) = fetch_all(Duration::ZERO);
        let (took, waited) = fetch_all(alone / 3);
        let expected = took.saturating_sub(alone / 3);
        println!("{waited:?} of {took:?}, {alone:?} alone");
        assert!(waited <= took.mul_f64(0.9) && waited >= expected / 4, "{waited:?}, not {expected:?}");
        assert!(waited <= expected.mul_f64(1.5) + Duration::from_millis(40), "{waited:?}, not {expected:?}");
    });
}

#[test]
fn the_first_stream_of_the_host_waits_for_its_own_copies() {
    let _turn = turn();
    in_one_of(5, || {
        let host = Host::new();
        let array = away(&host);
        let told = Told::begin(&host);
        drop(array.fetch().unwrap());
        let [took, waited, copying] = told.end(&host);
        assert!(waited <= took && copying <= waited && copying >= took / 4, "{waited:?} {copying:?} of {took:?}");
    });
}

#[test]
fn a_device_that_tells_no_time_waits_for_nothing() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let array = Placed::<u8, _>::zeros(&device, PAGE).unwrap();
    array.set_placement(Placement::Host).unwrap();
    let stats = device.stats().offload;
    assert_eq!((stats.waited, stats.copying, stats.hidden_share()), (Duration::ZERO, Duration::ZERO, None));
}

/// Most entries of a known order are not timed, and count like those that are.
#[test]
fn entries_that_are_not_timed_count_too() {
    let _turn = turn();
    in_one_of(5, || {
        let host = stream();
        host.trim();
        host.set_limit(host.memory().bytes + (20 * PAGE) as u64).unwrap();
        let arrays: Vec<Placed<u8, _>> = (0..8).map(|_| Placed::zeros(&host, 4 * PAGE).unwrap()).collect();
        let scope = Scope::new("entries_that_are_not_timed");
        let entry = || {
            scope.run(|| arrays.iter().for_each(|array| drop(array.fetch().unwrap())));
            host.synchronize().unwrap();
        };
        (0..8).for_each(|_| entry());
        let told = Told::begin(&host);
        (0..64).for_each(|_| entry());
        let [took, waited, _] = told.end(&host);
        let stats = stats(scope.name()).unwrap().offload;
        println!("{waited:?} of {took:?}; {stats}");
        // The stream did nothing but wait, apart from the thread's own work.
        assert!(waited <= took.mul_f64(1.5) && waited >= took / 10, "{waited:?} of {took:?}");
        assert!(stats.waited >= waited && stats.waited <= host.stats().offload.waited);
        host.set_limit(u64::MAX).unwrap();
    });
}

#[test]
fn a_scope_tells_what_moved_in_it() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    device.set_limit((10 * PAGE) as u64).unwrap();
    let arrays: Vec<Placed<u8, _>> = (0..16).map(|_| Placed::zeros(&device, PAGE).unwrap()).collect();
    let before = device.stats().offload;
    let scope = Scope::new("a_scope_tells_what_moved_in_it");
    let entry = |count: usize| scope.run(|| arrays[..count].iter().for_each(|array| drop(array.fetch().unwrap())));
    let told = || stats(scope.name()).unwrap().offload;
    assert!(stats(scope.name()).is_none());
    (0..12).for_each(|_| entry(16));
    let stats = told();
    assert_eq!((stats.mispredictions, stats.resident_bytes), (0, 0), "{stats}");
    assert!(stats.layout_time > Duration::ZERO && stats.layout_time == device.stats().offload.layout_time);
    assert!(stats.bytes_in > 0 && stats.bytes_in + before.bytes_in == device.stats().offload.bytes_in);

    // The entry ends before all expected uses. This is noticed when the next entry begins.
    entry(12);
    assert_eq!(told().mispredictions, 0);
    entry(12);
    assert_eq!(told().mispredictions, 1);
    // Another use than expected, after the expected one came twice.
    (0..3).for_each(|_| entry(12));
    scope.run(|| drop(arrays[5].fetch().unwrap()));
    assert_eq!((told().mispredictions, device.stats().offload.mispredictions), (2, 2));
    // Moves outside scopes count only for the device.
    let inside = told();
    arrays[15].set_placement(Placement::Host).unwrap();
    arrays[15].set_placement(Placement::Device).unwrap();
    assert_eq!(told().bytes_in, inside.bytes_in);
}

/// A subscriber of `tracing` that panics at each event of this crate. It counts them.
struct Panicking;

static EVENTS: AtomicUsize = AtomicUsize::new(0);

impl tracing::Subscriber for Panicking {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "gpucache"
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn event(&self, _: &tracing::Event<'_>) {
        EVENTS.fetch_add(1, Relaxed);
        panic!("in a subscriber");
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn after_a_subscriber_panics_in_a_fetch_later_waits_count() {
    let _turn = turn();
    let host = stream();
    let array = away(&host);
    let fetch = || drop(array.fetch().unwrap());
    tracing::subscriber::with_default(Panicking, fetch);
    assert!(EVENTS.load(Relaxed) > 0, "the subscriber was asked");
    array.set_placement(Placement::Host).unwrap();
    array.choose_placement(Placement::Auto);
    let told = Told::begin(&host);
    fetch();
    let [_, waited, copying] = told.end(&host);
    assert!(waited > copying / 4, "waited {waited:?} of {copying:?}");
}
