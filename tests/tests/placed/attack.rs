//! Attacks on arrays that can be offloaded: by orders that nobody would write, by numbers of arrays, uses and moves that few
//! programs have, and by reading all statistics meanwhile.

use std::sync::{Arc, mpsc::channel};
use std::time::{Duration, Instant};

use gpucache::device::{Device, Virtual};
use gpucache::{
    Scope, cache_scope,
    offload::{Placed, Placement},
    prelude::*,
    stats,
};
use gpucache_tests::process::in_one_of;
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;

type Bytes = Placed<u8, Virtual>;

/// A device without a clock, of which at most `pages` pages may be in use.
fn device(pages: usize) -> Virtual {
    let device = Virtual::new(1 << 40);
    device.set_limit((pages * PAGE) as u64).unwrap();
    device
}

fn arrays<D: Device>(device: &D, count: usize, bytes: usize) -> Vec<Placed<u8, D>> {
    (0..count).map(|_| Placed::zeros(device, bytes).unwrap()).collect()
}

fn use_all<D: Device>(arrays: &[Placed<u8, D>]) {
    arrays.iter().for_each(|array| drop(array.fetch().unwrap()));
}

/// How often an array was away when another thread requested it. No order of this thread contains that request.
fn is_away(array: &Bytes) -> u64 {
    let look = || {
        let before = array.device().stats().offload.demanded;
        drop(array.fetch().unwrap());
        array.device().stats().offload.demanded - before
    };
    std::thread::scope(|threads| threads.spawn(look).join().unwrap())
}

#[test]
fn what_rests_on_the_device_does_not_leave_by_a_known_order() {
    let _turn = turn();
    for since in [0, 4] {
        let device = device(8);
        let (arrays, scope) = (arrays(&device, 12, PAGE), Scope::new("rests_on_the_device"));
        let last = &arrays[11];
        for entry in 0..9 {
            if entry == since {
                last.set_placement(Placement::Device).unwrap();
            }
            let mut away = 0;
            scope.run(|| {
                for array in &arrays {
                    drop(array.fetch().unwrap());
                    away += if entry < since { 0 } else { is_away(last) };
                }
            });
            assert_eq!(away, 0, "entry {entry}, with its place since {since}");
        }
        assert!(device.stats().offload.prefetched > 0);
    }
}

#[test]
fn what_moved_is_told_when_no_array_is_left() {
    let _turn = turn();
    let device = device(8);
    let some = arrays(&device, 12, PAGE);
    use_all(&some);
    let before = device.stats().offload;
    assert!(before.bytes_in > 0);
    drop(some);
    let after = device.stats().offload;
    assert_eq!((after.bytes_in, after.demanded, after.resident_bytes), (before.bytes_in, before.demanded, 0));
    use_all(&arrays(&device, 12, PAGE));
    assert_eq!(device.stats().offload.bytes_in, 2 * before.bytes_in, "of arrays that came later too");
}

/// The moves after the last use of an entry are made when the next entry begins, of whatever scope.
#[test]
fn what_an_entry_moves_at_its_end_is_of_its_scope() {
    let _turn = turn();
    let device = device(8);
    let arrays = arrays(&device, 12, PAGE);
    let (all, last) = (Scope::new("moves_at_its_end"), Scope::new("moves_nothing_at_its_end"));
    for _ in 0..20 {
        all.run(|| use_all(&arrays));
        last.run(|| use_all(&arrays[11..]));
    }
    let [all, last] = [all, last].map(|scope| stats(scope.name()).unwrap().offload);
    assert!(all.prefetched > 0);
    assert_eq!((last.prefetched, last.evictions, last.bytes_in), (0, 0, last.bytes_demanded), "{last}");
}

#[test]
fn where_all_fits_moves_are_computed_once() {
    let _turn = turn();
    let (roomy, narrow) = (device(100), device(16));
    let some = arrays(&roomy, 30, PAGE);
    some[0].choose_placement(Placement::Host);
    let two = [arrays(&narrow, 12, PAGE), arrays(&narrow, 12, PAGE)];
    let (leaves, first, second) = (Scope::new("one_leaves"), Scope::new("in_turn_0"), Scope::new("in_turn_1"));
    let entry = || {
        leaves.run(|| use_all(&some));
        first.run(|| use_all(&two[0]));
        second.run(|| use_all(&two[1]));
    };
    let computed = || [&roomy, &narrow].map(|device| device.stats().offload.layout_time);
    (0..6).for_each(|_| entry());
    let before = computed();
    (0..10).for_each(|_| entry());
    assert_eq!(computed(), before);
    // Until there is less room.
    roomy.set_limit((20 * PAGE) as u64).unwrap();
    (0..4).for_each(|_| entry());
    assert!(computed()[0] > before[0]);
}

#[test]
fn a_scope_that_is_entered_again_inside_has_one_order() {
    let _turn = turn();
    fn down(arrays: &[Bytes]) {
        let Some((first, rest)) = arrays.split_first() else { return };
        cache_scope!(down, {
            drop(first.fetch().unwrap());
            down(rest);
        });
    }
    let device = device(8);
    let arrays = arrays(&device, 12, PAGE);
    (0..8).for_each(|_| down(&arrays));
    let stats = device.stats().offload;
    assert!(stats.prefetched > 0 && stats.mispredictions == 0, "{stats}");
}

#[test]
fn another_array_in_its_place_keeps_its_own_shape() {
    let _turn = turn();
    let host = Host::new();
    for placement in [Placement::Host, Placement::Device] {
        let mut placed = Placed::<u8, _>::zeros(&host, [32, 32]).unwrap();
        *placed.fetch_mut().unwrap() = Array::from_slice(&host, 3, &[1, 2, 3]).unwrap();
        placed.set_placement(placement).unwrap();
        assert_eq!(placed.to_vec().unwrap(), [1, 2, 3]);
        let sizes = (placed.shape(), placed.byte_len(), placed.fetch().unwrap().shape().to_vec());
        assert_eq!(sizes, (&[32, 32][..], 32 * 32, vec![3]), "as `Placed::shape` says");
    }
}

#[test]
fn a_handler_asks_for_the_array_that_is_on_its_way() {
    let _turn = turn();
    let (done, ended) = channel();
    std::thread::spawn(move || {
        let device = device(2);
        let array = Arc::new(arrays(&device, 1, PAGE).remove(0));
        array.set_placement(Placement::Host).unwrap();
        let full = arrays(&device, 2, PAGE);
        full.iter().for_each(|array| array.choose_placement(Placement::Device));
        let (own, answer) = (array.clone(), done.clone());
        let _handler = device.on_pressure(move |_| answer.send(own.fetch().unwrap_err().is_unavailable()).unwrap());
        let is_short = array.fetch().unwrap_err().is_out_of_memory();
        drop(full);
        done.send(is_short && array.fetch().is_ok()).unwrap();
    });
    for _ in 0..2 {
        assert!(ended.recv_timeout(Duration::from_secs(120)).expect("it waits for itself"));
    }
}

#[test]
fn small_arrays_tell_nothing_of_how_long_large_copies_take() {
    let _turn = turn();
    in_one_of(5, || {
        let host = Host::new_stream().unwrap();
        let small = [0, 64].map(|bytes| arrays(&host, 1, bytes));
        for small in &small {
            small[0].choose_placement(Placement::Host);
            (0..1000).for_each(|_| use_all(small));
        }
        host.set_limit(u64::MAX).unwrap();
        host.trim();
        host.set_limit(host.memory().bytes + (4 * PAGE) as u64).unwrap();
        let (arrays, scope, begun) = (arrays(&host, 6, PAGE), Scope::new("small_and_large"), Instant::now());
        let before = host.stats().offload.copying;
        (0..12).for_each(|_| scope.run(|| use_all(&arrays)));
        host.synchronize().unwrap();
        let (copying, took) = (host.stats().offload.copying - before, begun.elapsed());
        host.set_limit(u64::MAX).unwrap();
        // Both directions run at once. The factor allows for a busy machine.
        assert!(copying < 4 * took, "{copying:?} of {took:?}");
    });
}

/// The least of some times: the time without disturbance.
fn least(mut act: impl FnMut() -> Duration) -> Duration {
    (0..5).map(|_| act()).min().unwrap()
}

#[test]
fn what_is_alive_makes_nothing_dearer_that_comes_and_goes() {
    let _turn = turn();
    let time = |alive: usize| {
        let device = device(100);
        let _alive = arrays(&device, alive, 1);
        least(|| {
            let begun = Instant::now();
            (0..100).for_each(|_| drop(arrays(&device, 1, 1)));
            begun.elapsed()
        })
    };
    // One less than a power of two, so a list of them has one free place.
    in_one_of(5, || {
        let (few, many) = (time(15), time((1 << 14) - 1));
        assert!(many < 15 * few, "{few:?}, and with many {many:?}");
    });
}

#[test]
fn a_long_entry_makes_no_drop_dearer() {
    let _turn = turn();
    in_one_of(5, || {
        let device = device(1000);
        let time = || {
            let some = arrays(&device, 1000, 1);
            let begun = Instant::now();
            drop(some);
            begun.elapsed()
        };
        let used = arrays(&device, 1000, 1);
        let before = least(time);
        cache_scope!(a_long_entry, { (0..40).for_each(|_| use_all(&used)) });
        let after = least(time);
        assert!(after < 15 * before, "{before:?}, and behind it {after:?}");
    });
}

/// Arrays that left one device before do not concern the other device.
#[test]
fn an_entry_may_use_arrays_of_two_devices() {
    let _turn = turn();
    let (first, second) = (Virtual::new(1 << 30), Virtual::new(1 << 30));
    let (a, b) = (arrays(&first, 3, PAGE), arrays(&second, 3, PAGE));
    a.iter().for_each(|array| array.set_placement(Placement::Host).unwrap());
    let step = || cache_scope!(of_two_devices, { [&a[..], &b[..]].iter().for_each(|arrays| use_all(arrays)) });
    (0..3).for_each(|_| step());
    b.iter().for_each(|array| array.set_placement(Placement::Host).unwrap());
    (0..3).for_each(|_| step());
    assert_eq!((first.stats().offload.evictions, second.stats().offload.evictions), (3 + 6 * 3, 3 + 3 * 3));
}

/// Sizes at the end of the number range are errors, and take memory from nobody.
#[test]
fn what_no_device_has_room_for_is_an_error() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let kept = arrays(&device, 2, 1000);
    for bytes in [usize::MAX, usize::MAX - 255, usize::MAX / 2 + 1, 1 << 31] {
        cache_scope!(too_large_to_place, {
            let error = Placed::<u8, _>::zeros(&device, bytes).unwrap_err();
            assert!(error.is_out_of_memory() || error.is_invalid_shape(), "{bytes}: {error}");
            use_all(&kept);
        });
    }
    assert_eq!((device.stats().offload.evictions, device.stats().offload.resident_bytes), (0, 2000));
}

/// Arrays of all the addresses that there are together, with room for one at a time.
#[test]
fn huge_arrays_move_by_a_known_order() {
    let _turn = turn();
    const HUGE: usize = 1 << 46;
    let device = Virtual::new(4 * HUGE);
    device.set_limit(2 * HUGE as u64).unwrap();
    let arrays = arrays(&device, 4, HUGE - PAGE);
    (0..12).for_each(|_| cache_scope!(huge_arrays, { use_all(&arrays) }));
    let stats = device.stats().offload;
    assert!(stats.prefetched > 0, "{stats}");
    assert!(stats.bytes_in >= 8 * 4 * (HUGE - PAGE) as u64 / 2 && stats.resident_bytes <= 2 * HUGE as u64, "{stats}");
}

/// Moves of a known order may call handlers. The handlers' own uses are noted, but are not part of the order.
#[test]
fn what_a_handler_fetches_in_the_middle_of_a_known_order_is_noted() {
    let _turn = turn();
    let (device, other) = (device(2), Virtual::new(1 << 40));
    let (arrays, apart) = (arrays(&device, 4, PAGE), Arc::new(arrays(&other, 1, PAGE).remove(0)));
    let scope = Scope::new("a_handler_in_an_order");
    let step = || scope.run(|| use_all(&arrays));
    (0..8).for_each(|_| step());
    let mispredictions = || stats("a_handler_in_an_order").unwrap().offload.mispredictions;
    assert_eq!(mispredictions(), 0);
    let held = Arc::new(std::sync::Mutex::new(None));
    let (given_up, calls) = (held.clone(), Arc::new(std::sync::atomic::AtomicU64::new(0)));
    let called = calls.clone();
    let _handler = device.on_pressure(move |_| {
        called.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        drop(apart.fetch().unwrap());
        given_up.lock().unwrap().take();
    });
    scope.run(|| {
        drop(arrays[0].fetch().unwrap());
        *held.lock().unwrap() = Some(device.zeros::<u8>(2 * PAGE).unwrap());
        arrays[1..].iter().for_each(|array| drop(array.fetch().unwrap()));
    });
    assert_eq!((calls.load(std::sync::atomic::Ordering::SeqCst), mispredictions()), (1, 1));
}

/// Arrays on the host cost the fetches of others nothing, whether their sizes differ or not.
#[test]
fn arrays_on_the_host_make_no_fetch_dearer() {
    let _turn = turn();
    let time = |away: usize| {
        let device = device(32);
        let _away: Vec<_> = arrays(&device, away, 1);
        _away.iter().for_each(|array| array.set_placement(Placement::Host).unwrap());
        let used: Vec<_> = (0..24).map(|place| arrays(&device, 1, PAGE + place * PAGE / 8)).collect();
        least(|| {
            let begun = Instant::now();
            (0..4).for_each(|_| used.iter().for_each(|array| use_all(array)));
            begun.elapsed()
        })
    };
    in_one_of(5, || {
        let (none, many) = (time(0), time(20_000));
        assert!(many < 4 * none, "{none:?}, and beside many {many:?}");
    });
}

/// Between such entries the device has no placed array.
#[test]
fn arrays_that_entries_make_come_ahead() {
    let _turn = turn();
    let device = device(16);
    let entry = || {
        cache_scope!(all_arrays_are_made, {
            let mut activations = Vec::new();
            (0..24).for_each(|_| activations.extend(arrays(&device, 1, PAGE)));
            activations.into_iter().rev().for_each(|array| drop(array.fetch().unwrap()));
        });
    };
    (0..20).for_each(|_| entry());
    let before = device.stats().offload;
    (0..4).for_each(|_| entry());
    let since = device.stats().offload.since(&before);
    assert!(since.prefetched >= 4 && since.mispredictions == 0, "{since}");
}

/// An array that leaves at the moment when it came does not count as resident behind that.
#[test]
fn an_array_that_comes_and_goes_at_once_is_counted_as_gone() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let array = Placed::<u8, _>::zeros(&device, 1000).unwrap();
    let end = Instant::now() + Duration::from_secs(2);
    // More threads than cores, so that some of them stop at any point.
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                while Instant::now() < end {
                    drop(array.fetch().unwrap());
                    array.set_placement(Placement::Host).unwrap();
                    array.choose_placement(Placement::Auto);
                }
            });
        }
    });
    array.set_placement(Placement::Host).unwrap();
    assert_eq!(device.stats().offload.resident_bytes, 0, "{}", device.stats().offload);
}
