//! Work on a stream of the host that panics. Reading the contents that it should have written gives a panic or an error, and never
//! the old contents. Nobody else gets one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use gpucache::prelude::*;
use gpucache::{Result, cache_scope, uncached};
use gpucache_tests::turn;

use super::gate;

type Numbers = Array<u32, Host>;

const LEN: usize = 100;

/// Queues work that panics before it writes.
fn fail(stream: &Host, array: &mut Numbers) {
    stream.launch(array, |_| panic!("on purpose")).unwrap();
}

/// Waits for the stream, and takes every failure that it keeps. A kept failure ends the call at once, so later work may fail after
/// it.
fn take_failure(stream: &Host) {
    assert!(stream.synchronize().unwrap_err().is_panic());
    while let Err(error) = stream.synchronize() {
        assert!(error.is_panic(), "{error}");
    }
}

#[track_caller]
fn assert_lost(array: &mut Numbers) {
    let text = |caught: thread::Result<u32>| *caught.unwrap_err().downcast::<String>().unwrap();
    for _ in 0..2 {
        let read = text(catch_unwind(|| array[0]));
        assert!(read.contains("on purpose") && read.contains("lost"), "{read}");
    }
    let written = text(catch_unwind(AssertUnwindSafe(|| {
        array[0] = 1;
        0
    })));
    assert!(written.contains("on purpose"), "{written}");
    assert!(catch_unwind(|| (&*array).into_iter().count()).is_err(), "iterated over");
    // The first error may be one that the stream keeps. The second is the array's own.
    assert!((0..2).all(|_| array.to_vec().unwrap_err().is_panic()));
    let cloned = array.try_clone().unwrap_err();
    assert!(cloned.is_panic() && !cloned.is_deferred(), "{cloned}");
}

#[test]
fn whoever_asks_for_what_is_lost_is_told() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    let mut array = Numbers::zeros(&stream, LEN).unwrap();
    let closed = gate(&stream);
    fail(&stream, &mut array);
    drop(closed);
    assert_lost(&mut array);
    let mut array = array.reshape([10, 10]).unwrap();
    assert_lost(&mut array);
    drop(array);
    stream.synchronize().unwrap();
}

#[test]
fn the_error_of_the_stream_does_not_take_the_arrays_failure_away() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    let mut array = Numbers::zeros(&stream, LEN).unwrap();
    fail(&stream, &mut array);
    take_failure(&stream);
    assert_lost(&mut array);
}

#[test]
fn arrays_that_it_was_not_to_write_are_not_concerned() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    let [read, other, mut before] = [1, 2, 3].map(|value| Array::full(&stream, LEN, value).unwrap());
    let mut lost = Numbers::zeros(&stream, LEN).unwrap();
    stream.launch(&mut before, |values| values[0] = 4).unwrap();
    stream.launch((&mut lost, &read), |_| panic!("on purpose")).unwrap();
    assert_eq!((&read[..], &other[..]), (&[1; LEN][..], &[2; LEN][..]));
    assert_eq!(before[..2], [4, 3]);
    take_failure(&stream);
    assert_lost(&mut lost);
    drop(lost);
    assert_eq!(read.to_vec().unwrap(), [1; LEN]);
    stream.launch(&mut before, |values| values[1] = 5).unwrap();
    assert_eq!(before[..2], [4, 5], "the stream goes on");
}

/// Everything that is written from a lost array is lost too: by work on any stream, and by copies that were queued before the
/// failure.
#[test]
fn what_is_written_from_it_is_lost_too() {
    let _turn = turn();
    let [stream, other] = [(); 2].map(|()| Host::new_stream().unwrap());
    let mut first = Numbers::zeros(&stream, LEN).unwrap();
    let mut copies = [&stream, &other].map(|stream| Numbers::zeros(stream, LEN).unwrap());
    let sound = first.try_clone().unwrap();
    let closed = gate(&stream);
    fail(&stream, &mut first);
    let mut clone = first.try_clone().unwrap();
    for (copy, stream) in copies.iter_mut().zip([&stream, &other]) {
        stream.launch((&mut *copy, &first), |(copy, first)| copy.copy_from_slice(first)).unwrap();
    }
    let mut last = Numbers::zeros(&other, LEN).unwrap();
    other.launch((&mut last, &copies[1]), |(last, copy)| last.copy_from_slice(copy)).unwrap();
    drop(closed);
    take_failure(&stream);
    take_failure(&other);
    [first, clone.reshape(LEN).unwrap(), last].iter_mut().chain(&mut copies).for_each(assert_lost);
    assert_eq!(sound[..], [0; LEN]);
    clone = Numbers::zeros(&stream, LEN).unwrap();
    assert_eq!(clone[..], [0; LEN]);
}

/// A copy that reports the failure has changed nothing.
#[test]
fn a_copy_of_what_is_lost_changes_nothing() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    let (mut lost, mut target) = (Numbers::zeros(&stream, LEN).unwrap(), Numbers::full(&stream, LEN, 2).unwrap());
    fail(&stream, &mut lost);
    take_failure(&stream);
    assert!(target.copy_from(&lost).unwrap_err().is_panic());
    assert_eq!(target.to_vec().unwrap(), [2; LEN]);
}

#[test]
fn what_was_written_before_or_is_overwritten_is_not_lost() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    let mut array = Array::full(&stream, LEN, 7).unwrap();
    let closed = gate(&stream);
    stream.launch(&mut array, |values| values[0] = 8).unwrap();
    let before = array.try_clone().unwrap();
    fail(&stream, &mut array);
    let mut lost = array.try_clone().unwrap();
    array.copy_from_slice(&[9; LEN]).unwrap();
    drop(closed);
    assert_eq!((before[..2].to_vec(), &array[..]), (vec![8, 7], &[9; LEN][..]));
    take_failure(&stream);
    assert_lost(&mut lost);
    lost.copy_from_slice(&[1; LEN]).unwrap();
    stream.launch(&mut lost, |values| values[0] += 1).unwrap();
    assert_eq!(lost[..2], [2, 1]);
    lost[0] = 3;
    assert_eq!(lost[..2], [3, 1]);
}

/// Work that is done at once returns an error. An array of the default stream belongs to the caller, whose panic is its own.
#[test]
fn work_of_the_default_stream_is_told_at_once() {
    let _turn = turn();
    let (host, stream) = (Host::new(), Host::new_stream().unwrap());
    let (mut lost, mut sum) = (Numbers::zeros(&stream, LEN).unwrap(), Numbers::zeros(&host, 1).unwrap());
    fail(&stream, &mut lost);
    let add = |(sum, lost): (&mut [u32], &[u32])| sum[0] = 1 + lost[0];
    assert!(host.launch((&mut sum, &lost), add).unwrap_err().is_panic());
    assert_eq!(sum[0], 0, "the work is not done");
    let caught = catch_unwind(AssertUnwindSafe(|| host.launch(&mut sum, |_| panic!("on purpose"))));
    assert!(caught.is_err());
    assert_eq!(sum[0], 0);
    take_failure(&stream);
}

/// One entry. Each of its arrays is lent to work, which fails for one of them.
fn entry(stream: &Host, fails: bool) -> Result<Vec<u32>> {
    cache_scope!(failing_entries, {
        let mut arrays = [1, 2].map(|value| Array::full(stream, LEN, value).unwrap());
        for array in &mut arrays {
            stream.launch(array, |values| values[0] += 1)?;
        }
        if fails {
            fail(stream, &mut arrays[0]);
        }
        let [lost, mut sum] = arrays;
        stream.launch((&mut sum, &lost), |(sum, lost)| sum[0] += lost[0])?;
        sum.to_vec()
    })
}

/// The memory of a lost array serves the next arrays like any other memory, with or without a plan.
#[test]
fn the_next_entry_works() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    for round in 0..30 {
        let (fails, result) = (round % 10 == 9, entry(&stream, round % 10 == 9));
        match result {
            Ok(values) => assert_eq!((fails, values[0], values[1]), (false, 5, 2), "entry {round}"),
            Err(error) => assert!(fails && error.is_panic(), "entry {round}: {error}"),
        }
        let _ = stream.synchronize();
    }
    // This memory is not written when it is handed out. Every read sees contents of the array's own life.
    for _ in 0..20 {
        cache_scope!(failing_uninit, {
            // SAFETY: the work below writes every element, or it fails, and then nothing is read.
            #[allow(unsafe_code)]
            let mut array: Numbers = unsafe { Array::uninit(&stream, LEN).unwrap() };
            stream.launch(&mut array, |values| values.fill(3)).unwrap();
            assert_eq!(array[..], [3; LEN]);
            fail(&stream, &mut array);
            assert!(catch_unwind(|| array[0]).is_err());
        });
        take_failure(&stream);
    }
    let plain = uncached!({ Array::full(&stream, LEN, 4u32).unwrap() });
    assert_eq!(plain[..], [4; LEN]);
}

#[test]
fn any_number_of_arrays_are_lent_at_once() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    let mut arrays: Vec<_> = (0..50).map(|value| Array::full(&stream, LEN, value).unwrap()).collect();
    let closed = gate(&stream);
    let (sums, values) = arrays.split_at_mut(25);
    let pairs: Vec<_> = sums.iter_mut().zip(&*values).collect();
    stream.launch(pairs, |pairs| pairs.into_iter().for_each(|(sum, value)| sum[0] += value[0])).unwrap();
    let [a, b, c] = &mut arrays[..3] else { unreachable!() };
    let d = Array::full(&stream, LEN, 9).unwrap();
    let twelve = (a, &d, &d, &d, (b, &d), &d, &d, &d, &d, &d, &d, vec![c]);
    stream.launch(twelve, |(a, d, .., mut c)| (a[1], c[0][1]) = (d[0], 8)).unwrap();
    drop(closed);
    assert_eq!((&arrays[0][..3], &arrays[24][..2], arrays[2][1]), (&[25, 9, 0][..], &[73, 24][..], 8));
    stream.launch(Vec::<&Numbers>::new(), |none| assert!(none.is_empty())).unwrap();
    let (two, lost) = arrays.split_at_mut(2);
    stream.launch(lost.iter_mut().collect::<Vec<_>>(), |_| panic!("on purpose")).unwrap();
    take_failure(&stream);
    lost.iter_mut().for_each(assert_lost);
    assert_eq!((two[0][0], two[1][0]), (25, 27));
}
