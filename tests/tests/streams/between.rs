//! Copies of arrays between streams, and between kinds of devices, in the order of both streams.

use std::time::Duration;

use gpucache::cache_scope as scope;
use gpucache::device::Virtual;
use gpucache::prelude::*;
use gpucache_tests::turn;

const LEN: usize = 1000;

fn two_streams() -> [Host; 2] {
    [Host::new_stream().unwrap(), Host::new_stream().unwrap()]
}

/// Puts work on a stream that takes a moment before it writes.
fn fill_late(stream: &Host, array: &mut Array<u32, Host>, value: u32) {
    let fill = move |values: &mut [u32]| {
        std::thread::sleep(Duration::from_millis(5));
        values.fill(value);
    };
    stream.launch(array, fill).unwrap();
}

#[test]
fn a_copy_waits_for_its_source_and_the_source_for_the_copy() {
    let _turn = turn();
    let [a, b] = two_streams();
    for round in 0..20 {
        let mut from = Array::<u32, _>::zeros(&a, LEN).unwrap();
        fill_late(&a, &mut from, round);
        let to = from.to_device(&b).unwrap();
        fill_late(&a, &mut from, 1000);
        assert_eq!(to.to_vec().unwrap(), [round; LEN]);
        assert_eq!(from.to_vec().unwrap(), [1000; LEN]);
    }
}

#[test]
fn the_source_may_be_dropped_before_it_is_copied() {
    let _turn = turn();
    let [a, b] = two_streams();
    for round in 0..50 {
        scope!(source_dropped, {
            let mut to = Array::<u32, _>::zeros(&b, LEN).unwrap();
            fill_late(&b, &mut to, 5);
            let from = Array::full(&a, LEN, round).unwrap();
            to.copy_from(&from).unwrap();
            drop(from);
            let next = Array::full(&a, LEN, u32::MAX).unwrap();
            assert_eq!(to.to_vec().unwrap(), [round; LEN], "round {round}");
            drop(next);
        });
    }
    let _ = invalidate("source_dropped");
}

#[test]
fn readers_of_the_target_are_waited_for() {
    let _turn = turn();
    let [a, b] = two_streams();
    let mut target = Array::full(&b, LEN, 1u32).unwrap();
    let mut seen = Array::<u32, _>::zeros(&b, LEN).unwrap();
    let copy = |(seen, target): (&mut [u32], &[u32])| {
        std::thread::sleep(Duration::from_millis(20));
        seen.copy_from_slice(target);
    };
    b.launch((&mut seen, &target), copy).unwrap();
    target.copy_from(&Array::full(&a, LEN, 2u32).unwrap()).unwrap();
    assert_eq!((seen[0], target[LEN - 1]), (1, 2));
}

#[test]
fn hosts_and_their_streams_exchange_arrays() {
    let _turn = turn();
    let [stream, _] = two_streams();
    let from = Array::from_slice(&Host::new(), [2, 2], &[1u8, 2, 3, 4]).unwrap();
    let there = from.to_device(&stream).unwrap();
    assert_eq!(there.shape(), [2, 2]);
    assert_eq!(there.to_device(&Host::new()).unwrap(), from);
    let device = Virtual::new(1 << 20);
    assert_eq!(from.to_device(&device).unwrap().len(), 4);
}

#[test]
fn lengths_that_differ_are_refused() {
    let _turn = turn();
    let [a, b] = two_streams();
    let mut to = Array::<u8, _>::zeros(&a, [2, 3]).unwrap();
    assert!(to.copy_from(&Array::<u8, _>::zeros(&b, 7).unwrap()).unwrap_err().is_invalid_shape());
    assert!(to.copy_from(&Array::<u8, _>::zeros(&Host::new(), 5).unwrap()).unwrap_err().is_invalid_shape());
    to.copy_from(&Array::full(&b, [3, 2], 9u8).unwrap()).unwrap();
    assert_eq!(to.to_vec().unwrap(), [9; 6]);
}

#[test]
fn a_panic_of_the_sources_work_is_the_copys_too() {
    let _turn = turn();
    let [a, b] = two_streams();
    let mut from = Array::<u32, _>::zeros(&a, LEN).unwrap();
    a.launch(&mut from, |_: &mut [u32]| panic!("on purpose")).unwrap();
    let copied = from.to_device(&b).and_then(|to| to.to_vec());
    assert!(copied.unwrap_err().is_panic());
    let _ = a.synchronize();
}

/// Two stages on two streams in one scope: nothing is allocated once it is warm.
#[test]
fn stages_of_one_scope_are_served_on_both_streams() {
    let _turn = turn();
    let [a, b] = two_streams();
    for round in 0..20u32 {
        let before = a.memory().times_taken();
        scope!(two_stages, {
            let first = Array::full(&a, LEN, round).unwrap();
            let second = first.to_device(&b).unwrap();
            let third = second.to_device(&a).unwrap();
            assert_eq!(third.to_vec().unwrap(), [round; LEN]);
        });
        assert!(round < 10 || a.memory().times_taken() == before, "round {round}");
    }
    let _ = invalidate("two_stages");
}
