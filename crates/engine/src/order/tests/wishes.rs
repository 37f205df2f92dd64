//! Requests, made without a lock, for the end of an epoch: when a stream fulfils them, and which stream then waits for less.

use std::sync::atomic::Ordering::Relaxed;

use super::super::Epoch;
use super::some;

/// Memory of `a` that `b` reads is dropped. `b` continues with other work, and only then is the memory wanted again.
#[test]
fn who_takes_memory_back_does_not_wait_for_what_came_since() {
    let (world, memory, mut streams, [(a, home), (b, reader)]) = some();
    streams.attend(&b);
    let read = world.work(reader);
    let dropped = b.epoch();
    b.wanted_cell().store(true, Relaxed);
    // Later work of `b` reads the next array of `a`.
    world.work(home);
    let written = streams.used(&a);
    streams.order(&b, &a, written).unwrap();
    assert!(!b.is_wanted());
    let later = world.work(reader);
    assert_eq!(memory.meter().orders(), [2, 0, 1]);

    streams.order(&a, &b, Epoch(dropped)).unwrap();
    assert!(world.is_behind(home, reader, read) && !world.is_behind(home, reader, later));
    assert_eq!(memory.meter().orders(), [2, 1, 2], "the epoch has its event already");
}

#[test]
fn an_epoch_that_nobody_ended_is_waited_for_as_a_whole() {
    let (world, memory, mut streams, [(a, home), (b, reader)]) = some();
    streams.attend(&b);
    let dropped = b.epoch();
    let later = world.work(reader);
    streams.order(&a, &b, Epoch(dropped)).unwrap();
    assert!(world.is_behind(home, reader, later));
    assert_eq!(memory.meter().orders(), [1, 0, 1]);
}

#[test]
fn an_event_for_whatever_reason_is_what_was_asked_for() {
    let (world, memory, mut streams, [(a, _), (b, reader)]) = some();
    world.work(reader);
    b.wanted_cell().store(true, Relaxed);
    let tag = streams.free(&b);
    streams.claim(&a, tag).unwrap();
    assert!(!b.is_wanted());
    streams.attend(&b);
    assert_eq!(memory.meter().orders(), [1, 0, 1]);
}

#[test]
fn another_threads_stream_and_one_that_is_captured_keep_their_epoch() {
    let (world, memory, mut streams, [(a, _), (b, reader)]) = some();
    world.is_strict.store(true, Relaxed);
    world.capturing.lock().unwrap().insert(reader);
    b.wanted_cell().store(true, Relaxed);
    let written = streams.used(&a);
    assert!(streams.order(&b, &a, written).unwrap_err().is_unavailable());
    world.capturing.lock().unwrap().clear();
    std::thread::scope(|threads| {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let (streams, b) = (&mut streams, &b);
        let worker = threads.spawn(move || {
            streams.attend(b);
            b.wanted_cell().store(true, Relaxed);
            tell.send(streams).unwrap();
            let _ = ends.recv();
        });
        let streams = told.recv().unwrap();
        let before = memory.meter().orders()[0];
        streams.order(b, &a, written).unwrap();
        assert!(b.is_wanted() && memory.meter().orders()[0] == before + 1, "the event of `a` alone");
        drop(end);
        worker.join().unwrap();
    });
}
