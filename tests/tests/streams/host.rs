//! Streams of the host, whose work is done late and in order: which memory it may touch, and who waits for it.
//!
//! Gates hold work back until a test opens them. So every wrong order shows, whatever the timing.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use gpucache::prelude::*;
use gpucache::{cache_scope, invalidate_all};
use gpucache_tests::turn;

use super::{calls, gate, since};

fn address(array: &Array<u32, Host>) -> usize {
    array.as_ptr().addr()
}

#[test]
fn work_is_done_late_and_in_order() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    let done = Arc::new(Mutex::new(Vec::new()));
    let gate = gate(&stream);
    for number in 0..100 {
        let done = done.clone();
        stream.launch((), move |()| done.lock().unwrap().push(number)).unwrap();
    }
    assert!(done.lock().unwrap().is_empty());
    drop(gate);
    stream.synchronize().unwrap();
    assert_eq!(*done.lock().unwrap(), (0..100).collect::<Vec<_>>());
}

#[test]
fn writes_copies_and_reads_keep_the_order() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    let closed = gate(&stream);
    let mut values = vec![1, 2, 3];
    let mut first = Array::from_slice(&stream, 3, &values).unwrap();
    values.fill(0);
    let second = first.try_clone().unwrap();
    stream.launch((&mut first, &second), |(first, second)| first[0] = 10 * second[2]).unwrap();
    let third = first.try_clone().unwrap();
    first.copy_from_slice(&[7; 3]).unwrap();
    drop(closed);
    assert_eq!(third.to_vec().unwrap(), [30, 2, 3]);
    assert_eq!((&second[..], &first[..]), (&[1, 2, 3][..], &[7; 3][..]));
}

#[test]
fn a_stream_joins_another_one() {
    let _turn = turn();
    let (first, second) = (Host::new_stream().unwrap(), Host::new_stream().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let closed = gate(&first);
    let counter = count.clone();
    first.launch((), move |()| counter.store(1, SeqCst)).unwrap();
    second.join(&first).unwrap();
    let counter = count.clone();
    second.launch((), move |()| assert_eq!(counter.swap(2, SeqCst), 1)).unwrap();
    assert_eq!(count.load(SeqCst), 0);
    drop(closed);
    second.synchronize().unwrap();
    assert_eq!(count.load(SeqCst), 2);
    // This thread does the work of the default stream.
    let closed = gate(&first);
    let (opener, counter) = (thread::spawn(move || drop(closed)), count.clone());
    first.launch((), move |()| counter.store(3, SeqCst)).unwrap();
    Host::new().join(&first).unwrap();
    assert_eq!(count.load(SeqCst), 3);
    opener.join().unwrap();
}

#[test]
fn arrays_are_lent_to_other_streams() {
    let _turn = turn();
    let (owner, user) = (Host::new_stream().unwrap(), Host::new_stream().unwrap());
    let closed = gate(&owner);
    let mut array = Array::full(&owner, 1000, 1u32).unwrap();
    user.launch(&mut array, |values| values.iter_mut().for_each(|value| *value += 1)).unwrap();
    owner.launch(&mut array, |values| values.iter_mut().for_each(|value| *value *= 5)).unwrap();
    drop(closed);
    assert_eq!(array[..], [10; 1000]);

    let closed = gate(&user);
    let (opener, mut by_default) = (thread::spawn(move || drop(closed)), Array::full(&Host::new(), 3, 1u32).unwrap());
    user.launch(&mut array, |values| values.fill(3)).unwrap();
    assert_eq!(array[..], [3; 1000], "a reader waits for the stream that has it");
    opener.join().unwrap();

    assert!(user.launch(&by_default, |_| ()).unwrap_err().is_unavailable());
    Host::new().launch((&mut by_default, &array), |(sums, values)| sums[0] += values[0]).unwrap();
    assert_eq!(by_default[..], [4, 1, 1]);
}

/// Gives all memory of the streams back, after the work of streams without a handle is done too.
fn empty(stream: &Host) {
    let _ = invalidate_all();
    while stream.memory().bytes > 0 {
        stream.trim();
        thread::yield_now();
    }
}

/// `second` gets memory that `first` freed under late work only once that work is done. Until then it gets other memory, and
/// neither its caller nor its stream waits.
#[test]
fn freed_memory_is_not_touched_before_late_work_is_done() {
    let _turn = turn();
    let (first, second) = (Host::new_stream().unwrap(), Host::new_stream().unwrap());
    let (len, seen) = (64 << 10, Arc::new(Mutex::new(Vec::new())));
    // Nothing is left of other tests, and both streams are known. So all calls from now on belong to this test.
    empty(&first);
    let _known =
        cache_scope!(known_streams, { [&first, &second].map(|stream| Array::<u32, _>::zeros(stream, 1).unwrap()) });
    let before = calls(&first);
    let (place, closed) = cache_scope!(late_use_first, {
        let mut array = Array::<u32, _>::zeros(&first, len).unwrap();
        let (place, closed) = (address(&array), gate(&first));
        for round in 1..=3 {
            let seen = seen.clone();
            let work = move |values: &mut [u32]| {
                let is_whole = values.iter().all(|&value| value == round - 1);
                seen.lock().unwrap().push(is_whole);
                values.fill(round);
            };
            first.launch(&mut array, work).unwrap();
        }
        (place, closed)
    });
    assert_eq!(since(&first, before), [0; 3], "a stream orders itself");
    invalidate("late_use_first");
    let closed_second = gate(&second);
    let use_second = || {
        cache_scope!(late_use_second, {
            // All of these calls return before the earlier work has begun.
            let mut array = Array::full(&second, len, 77u32).unwrap();
            let place_of = Arc::new(AtomicUsize::new(0));
            let told = place_of.clone();
            second.launch(&mut array, move |values| told.store(values.as_ptr().addr(), SeqCst)).unwrap();
            let output = array.try_clone().unwrap();
            ([array, output], place_of)
        })
    };
    let ([_other, output], other_place) = use_second();
    assert!(seen.lock().unwrap().is_empty());
    let [events, _, waits] = since(&first, before);
    assert_eq!((events, waits), (1, 0), "an event to know when it is done, and no wait");
    drop(closed_second);
    assert!(output.to_vec().unwrap().iter().all(|&value| value == 77), "the second stream does not wait for the first");
    assert_ne!(other_place.load(SeqCst), place);
    drop(closed);
    first.synchronize().unwrap();
    assert_eq!(*seen.lock().unwrap(), [true; 3], "late work found what it left");
    // The array that is alive keeps the other memory, so only this memory is left.
    let (_last, same_place) = use_second();
    second.synchronize().unwrap();
    assert_eq!(same_place.load(SeqCst), place, "the memory changed hands");
}

/// A scope runs far ahead of its stream. Each place of its plan is used while late work still uses it.
#[test]
fn a_plan_runs_ahead_of_its_stream() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    empty(&stream);
    let (before, wrong) = (calls(&stream), Arc::new(AtomicUsize::new(0)));
    for batch in 0..10u32 {
        let closed = gate(&stream);
        for entry in 0..20 {
            cache_scope!(ahead, {
                let mut sum = Array::<u32, _>::zeros(&stream, 1000).unwrap();
                for step in 0..10 {
                    let part = Array::full(&stream, 1000 + 100 * step, step as u32 + batch * entry).unwrap();
                    let add = |(sum, part): (&mut [u32], &[u32])| sum.iter_mut().zip(part).for_each(|(x, y)| *x += y);
                    stream.launch((&mut sum, &part), add).unwrap();
                }
                let (wrong, all) = (wrong.clone(), 45 + 10 * batch * entry);
                let count = move |sum: &[u32]| _ = wrong.fetch_add(sum.iter().filter(|&&x| x != all).count(), SeqCst);
                stream.launch(&sum, count).unwrap();
            });
        }
        drop(closed);
        stream.synchronize().unwrap();
    }
    assert_eq!(wrong.load(SeqCst), 0);
    let planned = gpucache::stats("ahead").unwrap().served.planned.allocations;
    assert!(planned > 2000, "{planned} of 2200 by the plan");
    assert_eq!(since(&stream, before)[2], 0, "a stream waits for itself");
}

#[test]
fn a_panic_is_the_next_calls_error() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    let array = Array::full(&stream, 10, 5u32).unwrap();
    let closed = gate(&stream);
    stream.launch((), |()| panic!("on purpose {}", 1)).unwrap();
    let later = Arc::new(AtomicUsize::new(0));
    let counter = later.clone();
    stream.launch((), move |()| counter.store(1, SeqCst)).unwrap();
    drop(closed);
    let error = stream.synchronize().unwrap_err();
    assert!(error.is_panic() && error.is_deferred() && error.to_string().contains("on purpose 1"), "{error}");
    assert_eq!(later.load(SeqCst), 1, "the stream goes on");
    stream.synchronize().unwrap();

    stream.launch((), |()| std::panic::panic_any(7)).unwrap();
    assert!(array.to_vec().unwrap_err().is_panic());
    assert_eq!(array.to_vec().unwrap(), [5; 10]);
    assert_eq!(array[9], 5);
}

#[test]
fn arrays_move_into_work_and_go_there() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    let sum = Arc::new(AtomicUsize::new(0));
    for round in 0..50 {
        cache_scope!(moved_arrays, {
            let array = Array::full(&stream, 1000, round as u32).unwrap();
            let (sum, shared) = (sum.clone(), Arc::new(array.try_clone().unwrap()));
            let lent = shared.clone();
            stream.launch(&array, move |values| _ = sum.fetch_add((values[0] + values[999]) as usize, SeqCst)).unwrap();
            stream.launch(&*shared, move |values| assert_eq!(values, [round as u32; 1000])).unwrap();
            stream.launch((), move |()| drop((array, lent))).unwrap();
        });
    }
    stream.synchronize().unwrap();
    assert_eq!(sum.load(SeqCst), 49 * 50);
    assert_eq!(gpucache::stats("moved_arrays").unwrap().busy_blocks, 0);
}

/// Work may read arrays of its own stream if nothing is queued behind it. Otherwise it gets an error.
#[test]
fn work_does_not_wait_for_its_own_stream() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    let (send, sent) = channel();
    let array = Array::full(&stream, 10, 5u32).unwrap();
    stream.launch((), move |()| send.send((array[0], array.to_vec().unwrap()[1])).unwrap()).unwrap();
    assert_eq!(sent.recv().unwrap(), (5, 5));

    let array = Array::full(&stream, 10, 5u32).unwrap();
    let closed = gate(&stream);
    let own = stream.clone();
    let work = move |()| {
        assert!(array.to_vec().unwrap_err().is_unavailable() && own.synchronize().unwrap_err().is_unavailable());
        let _ = array[0];
    };
    stream.launch((), work).unwrap();
    stream.launch((), |()| ()).unwrap();
    drop(closed);
    let error = stream.synchronize().unwrap_err();
    assert!(error.to_string().contains("launch"), "{error}");
}

#[test]
fn streams_end_while_memory_remembers_them() {
    let _turn = turn();
    let stays = Host::new_stream().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let mut gates = Vec::new();
    for _ in 0..20 {
        let stream = Host::new_stream().unwrap();
        cache_scope!(ended_streams, {
            let mut array = Array::<u32, _>::zeros(&stream, 5000).unwrap();
            gates.push(gate(&stream));
            let done = done.clone();
            let work = move |values: &mut [u32]| {
                values.fill(1);
                done.fetch_add(usize::from(values.iter().all(|&value| value == 1)), SeqCst);
            };
            stream.launch(&mut array, work).unwrap();
        });
        invalidate("ended_streams");
    }
    let arrays: Vec<_> =
        (0..40).map(|_| cache_scope!(after_them, { Array::full(&stays, 5000, 2u32).unwrap() })).collect();
    // Pages under running work do not go back, since that would end the process. Pages that nobody uses may go.
    stays.trim();
    assert_eq!(stays.trim(), 0);
    assert_eq!(done.load(SeqCst), 0);
    drop(gates);
    assert!(arrays.iter().all(|array| array[..] == [2; 5000]));
    stays.synchronize().unwrap();
    drop(arrays);
    invalidate("after_them");
    empty(&stays);
    assert_eq!(done.load(SeqCst), 20);
}

/// The work of one thread: it fills and checks arrays on random streams, and lets other threads get their memory.
fn work_at_random(streams: &[Host], seed: u64, wrong: &Arc<AtomicUsize>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut kept: Vec<(Array<u32, Host>, u32)> = Vec::new();
    for round in 0..400u32 {
        let stream = &streams[random.usize(..streams.len())];
        let mark = seed as u32 * 1000 + round;
        cache_scope!(random_streams, {
            let mut array = Array::full(stream, random.usize(1..20_000), mark).unwrap();
            for step in 0..random.u32(..4) {
                let (wrong, user) = (wrong.clone(), &streams[random.usize(..streams.len())]);
                let user = if random.bool() { stream } else { user };
                let work = move |values: &mut [u32]| {
                    wrong.fetch_add(values.iter().filter(|&&value| value != mark ^ step).count(), SeqCst);
                    values.fill(mark ^ (step + 1));
                };
                user.launch(&mut array, work).unwrap();
                if random.u32(..8) == 0 {
                    let copy = array.try_clone().unwrap();
                    assert!(copy.iter().all(|&value| value == mark ^ (step + 1)));
                }
            }
            match random.u32(..6) {
                0 => kept.push((Array::full(stream, 100, mark).unwrap(), mark)),
                1 => stream.launch((), move |()| drop(array)).unwrap(),
                // Work that enters the scope itself, on its own stream and on another one.
                2 => {
                    let both = [stream.clone(), streams[random.usize(..streams.len())].clone()];
                    let work = move |()| {
                        cache_scope!(random_streams, { drop(both.map(|stream| Array::full(&stream, 5000, 1u32))) });
                    };
                    stream.launch((), work).unwrap();
                }
                3 if !kept.is_empty() => {
                    let (array, mark) = kept.swap_remove(random.usize(..kept.len()));
                    assert_eq!(array.to_vec().unwrap(), [mark; 100]);
                }
                _ => {}
            }
        });
        if random.u32(..100) == 0 {
            invalidate("random_streams");
        }
    }
    assert!(kept.iter().all(|(array, mark)| array[..] == [*mark; 100]));
}

#[test]
fn many_streams_and_threads_at_random() {
    let _turn = turn();
    let streams: Vec<_> = (0..64).map(|_| Host::new_stream().unwrap()).collect();
    let (wrong, before) = (Arc::new(AtomicUsize::new(0)), calls(&streams[0]));
    thread::scope(|scope| {
        for seed in 1..=6 {
            let (streams, wrong) = (&streams, &wrong);
            scope.spawn(move || work_at_random(streams, seed, wrong));
        }
    });
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
    assert_eq!(wrong.load(SeqCst), 0, "elements that were not what their array was");
    let [events, queries, waits] = since(&streams[0], before);
    assert!(events > 0 && waits > 0, "memory changed hands: {events} events, {queries} queries, {waits} waits");
}
