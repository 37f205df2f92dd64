//! Moves that something disturbs: an earlier failure, a fetch in the middle, work that waits for the thread, or another thread.

use std::sync::mpsc::channel;
use std::time::Duration;

use gpucache::device::{Device, Virtual};
use gpucache::offload::Placed;
use gpucache::{Error, Scope, prelude::*};
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;
/// Longer than all bounded waits of a test together.
const MOST: Duration = Duration::from_secs(120);

fn arrays<D: Device>(device: &D, count: usize) -> Vec<Placed<u8, D>> {
    (0..count).map(|_| Placed::zeros(device, PAGE).unwrap()).collect()
}

fn fetch_all<D: Device>(arrays: &[Placed<u8, D>]) {
    arrays.iter().for_each(|array| drop(array.fetch().unwrap()));
}

/// Runs `act` on a thread of its own, and returns its answer.
fn in_time<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(act()).unwrap());
    told.recv_timeout(MOST).expect("it ends")
}

/// A move that no call asked for may meet a failure that is kept for the next call.
#[test]
fn an_earlier_failure_is_returned_in_spite_of_moves() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    device.set_limit((8 * PAGE) as u64).unwrap();
    let (arrays, scope) = (arrays(&device, 12), Scope::new("disturbed: an earlier failure"));
    (0..8).for_each(|_| scope.run(|| fetch_all(&arrays)));
    let before = device.stats().offload.demanded;
    for place in 0..12 {
        let mut errors = Vec::new();
        scope.run(|| {
            for (number, array) in arrays.iter().enumerate() {
                if number == place {
                    device.stream_handle().keep(Error::device_failure(
                        "virtual",
                        "an earlier drop",
                        "as the test asked",
                    ));
                }
                errors.extend(array.fetch().err());
            }
        });
        errors.extend(device.synchronize().err());
        let [error] = &errors[..] else { panic!("{place}: {errors:?}") };
        assert!(error.is_deferred() && error.is_device_failure(), "{place}: {error}");
        let text = error.to_string();
        assert_eq!(text.matches("deferred").count(), 1, "{text}");
    }
    assert!(device.stats().offload.demanded < before + 12, "moves met the failures");
}

/// A subscriber of `tracing` that fetches an array at each event.
struct Fetching(Placed<u8, Virtual>);

impl tracing::Subscriber for Fetching {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "gpucache"
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn event(&self, _: &tracing::Event<'_>) {
        let _ = self.0.fetch();
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// As if another thread fetched it each time.
#[test]
fn an_array_that_comes_back_whenever_it_left_is_evicted_a_few_times() {
    let _turn = turn();
    let is_short = in_time(|| {
        let device = Virtual::new(1 << 40);
        device.set_limit(PAGE as u64).unwrap();
        let subscriber = Fetching(arrays(&device, 1).remove(0));
        let answer = tracing::subscriber::with_default(subscriber, || device.zeros::<u8>(PAGE).map(drop));
        answer.is_err_and(|error| error.is_out_of_memory())
    });
    assert!(is_short);
}

/// Before the moves of a new schedule, all arrays leave once, and the thread waits for the work that uses their memory: for ten seconds at
/// most.
#[test]
fn work_that_waits_for_the_thread_does_not_stop_an_entry() {
    let _turn = turn();
    in_time(|| {
        let host = Host::new_stream().unwrap();
        host.set_limit(u64::MAX).unwrap();
        host.trim();
        host.set_limit(host.memory().bytes + (8 * PAGE) as u64).unwrap();
        let (arrays, scope) = (arrays(&host, 12), Scope::new("disturbed: work that waits"));
        for _ in 0..4 {
            let (go, waits) = channel::<()>();
            host.launch((), move |()| _ = waits.recv()).unwrap();
            scope.run(|| fetch_all(&arrays));
            go.send(()).unwrap();
        }
        host.set_limit(u64::MAX).unwrap();
    });
}

#[test]
fn fetches_of_other_threads_do_not_change_a_schedule() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    device.set_limit((9 * PAGE) as u64).unwrap();
    // One page has both small arrays.
    let (_beside, small) = (device.zeros::<u8>(1).unwrap(), Placed::<u8, _>::zeros(&device, 1).unwrap());
    let (arrays, scope) = (arrays(&device, 12), Scope::new("disturbed: other threads"));
    let entry = || {
        scope.run(|| {
            fetch_all(&arrays[..6]);
            small.set_placement(gpucache::offload::Placement::Host).unwrap();
            std::thread::scope(|threads| threads.spawn(|| drop(small.fetch().unwrap())).join().unwrap());
            fetch_all(&arrays[6..]);
        });
    };
    (0..20).for_each(|_| entry());
    let before = device.stats().offload;
    (0..40).for_each(|_| entry());
    let since = device.stats().offload.since(&before);
    assert_eq!((since.demanded, since.layout_time), (40, Duration::ZERO), "{since}");
}

/// A fetch that brings nothing is no fetch on demand.
#[test]
fn a_fetch_without_memory_does_not_count_as_demanded() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    device.set_limit((2 * PAGE) as u64).unwrap();
    let arrays = arrays(&device, 3);
    let guards = [arrays[1].fetch().unwrap(), arrays[2].fetch().unwrap()];
    let before = device.stats().offload;
    assert!(arrays[0].fetch().unwrap_err().is_out_of_memory());
    drop(guards);
    drop(arrays[0].fetch().unwrap());
    let since = device.stats().offload.since(&before);
    assert_eq!((since.demanded, since.bytes_demanded), (1, PAGE as u64), "{since}");
}
