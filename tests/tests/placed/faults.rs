//! Failures while arrays move between a device and the host, at every call of every move, on both sides. Nothing may panic,
//! leak or be lost.

use std::sync::mpsc::channel;

use gpucache::device::Device;
use gpucache::{
    Error, Result,
    offload::{Placed, Placement},
    prelude::*,
};
use gpucache_tests::alike::{all, are_all};
use gpucache_tests::faulty::{Call, Failure, Fault};
use gpucache_tests::{Faulty, turn};

const PAGE: usize = 2 << 20;
/// Elements of an array. Each array is a chunk of its own on both sides.
const LEN: usize = PAGE / 4;
/// The number of arrays that fit the device at once.
const ROOM: u64 = 3;

/// An array and its contents.
struct Known {
    array: Placed<u32, Faulty>,
    seed: u32,
}

impl Known {
    /// The elements are zeros before the first write.
    fn write(&mut self, seed: u32) -> Result<()> {
        self.array.fetch_mut()?.copy_from_slice(&all(seed, LEN))?;
        self.seed = seed;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        assert!(are_all(&self.array.to_vec()?, self.seed), "the contents of {}", self.seed);
        Ok(())
    }
}

/// The arrays of a program, and the failures that it met.
#[derive(Default)]
struct Run {
    alive: Vec<Known>,
    errors: Vec<Error>,
}

impl Run {
    fn note<T>(&mut self, answer: Result<T>) -> Option<T> {
        answer.map_err(|error| self.errors.push(error)).ok()
    }

    /// More arrays than fit, in all kinds of moves: they are written, read, evicted and fetched by placement, cloned, and converted.
    fn program(&mut self, device: &Faulty) {
        for seed in 1..=4 {
            if let Some(array) = self.note(Placed::zeros(device, LEN)) {
                let mut known = Known { array, seed: 0 };
                let written = known.write(seed);
                self.note(written);
                self.alive.push(known);
            }
        }
        for place in 0..self.alive.len() {
            let read = self.alive[place].check();
            self.note(read);
        }
        if let [first, second, ..] = &mut self.alive[..] {
            let answers = [
                first.array.set_placement(Placement::Host),
                second.write(9),
                first.write(8),
                second.array.set_placement(Placement::Device),
            ];
            let copy = first.array.try_clone().map(|array| Known { array, seed: first.seed });
            answers.into_iter().for_each(|answer| _ = self.note(answer));
            let copy = self.note(copy);
            self.alive.extend(copy);
        }
        let last = self.alive.pop();
        let taken = last.map(|known| known.array.into_array());
        taken.and_then(|taken| self.note(taken)).into_iter().for_each(drop);
    }
}

/// Repeats a call until it no longer returns an earlier failure.
fn settled<T>(mut call: impl FnMut() -> Result<T>) -> T {
    for _ in 0..100 {
        match call() {
            Err(error) if error.is_deferred() => {}
            answer => return answer.expect("nothing fails any more"),
        }
    }
    panic!("there is no end to earlier failures");
}

/// On a device that keeps failing, memory that work may still use belongs to nobody, and counts as held.
fn assert_nothing_is_left(device: &Faulty, was_lost: bool, when: &str) {
    settled(|| {
        device.synchronize()?;
        // A failure of it is the error of the next call.
        device.trim();
        device.synchronize()
    });
    let (stats, sides) = (device.stats().offload, [device, &device.host_side()]);
    for side in sides {
        assert_eq!(side.violations(), [""; 0], "{when}");
        assert!(was_lost || side.live().is_empty(), "{when}: {:?}", side.live());
    }
    let held = sides.map(|side| side.live().iter().sum::<usize>() as u64);
    assert_eq!((device.memory().bytes, stats.host_bytes, stats.resident_bytes), (held[0], held[1], 0), "{when}");
}

/// Runs the program once for every call on one side, with a fault at that call. Returns the number of calls.
fn at_every_call(of_host: bool, for_ever: bool, failure: Failure) -> u64 {
    let make = |at| if for_ever { Fault::for_ever(at, failure) } else { Fault::once(at, failure) };
    for at in 1.. {
        let device = Faulty::with_chunks(usize::MAX);
        device.set_limit(ROOM * PAGE as u64).unwrap();
        let side = if of_host { device.host_side() } else { device.clone() };
        let mut run = Run::default();
        let when = format!("host: {of_host}, {:?}", make(at));
        side.arm(make(at));
        run.program(&device);
        let failures = side.failures();
        side.disarm();
        let when = format!("{when}: {:?}", run.errors.iter().map(Error::to_string).collect::<Vec<_>>());
        for error in &run.errors {
            assert!(error.is_device_failure() != error.is_out_of_memory(), "{when}: {error}");
        }
        assert!(device.memory().bytes <= ROOM * PAGE as u64);
        if for_ever {
            // All of the memory may have been lost meanwhile.
            device.set_limit(u64::MAX).unwrap();
        }
        run.alive.iter().for_each(|known| settled(|| known.check()));
        drop(run.alive);
        assert_nothing_is_left(&device, for_ever, &when);
        if failures == 0 {
            assert!(run.errors.is_empty(), "{when}: {:?}", run.errors);
            return at;
        }
    }
    0
}

#[test]
fn whatever_call_of_the_device_fails_no_contents_are_lost() {
    let _turn = turn();
    for failure in [Failure::Device, Failure::OutOfMemory] {
        let calls = [false, true].map(|for_ever| at_every_call(false, for_ever, failure));
        assert!(calls[0] > 40, "{calls:?}");
    }
}

#[test]
fn whatever_call_of_the_host_side_fails_no_contents_are_lost() {
    let _turn = turn();
    for failure in [Failure::Device, Failure::OutOfMemory] {
        let calls = [false, true].map(|for_ever| at_every_call(true, for_ever, failure));
        assert!(calls[0] > 20, "{calls:?}");
    }
}

/// Arrays of one page with contents.
fn arrays(device: &Faulty, seeds: std::ops::RangeInclusive<u32>) -> Vec<Known> {
    let make = |seed| {
        let mut known = Known { array: Placed::zeros(device, LEN)?, seed };
        known.write(seed)?;
        Ok(known)
    };
    seeds.map(make).collect::<Result<_>>().unwrap()
}

#[test]
fn a_host_without_room_leaves_arrays_where_they_are() {
    let _turn = turn();
    let device = Faulty::with_chunks(usize::MAX);
    device.set_host_limit(2 * PAGE as u64).unwrap();
    let mut four = arrays(&device, 1..=4);
    for (place, known) in four.iter().enumerate() {
        let answer = known.array.set_placement(Placement::Host);
        assert_eq!(answer.is_err_and(|error| error.is_out_of_memory()), place > 1, "{place}");
    }
    let stats = device.stats().offload;
    assert_eq!((stats.host_bytes, stats.resident_bytes), (2 * PAGE as u64, 2 * PAGE as u64));
    four.iter().for_each(|known| known.check().unwrap());
    // The device is full of arrays that cannot leave, so it refuses more.
    device.set_limit(device.memory().bytes).unwrap();
    let error = Array::<u32, _>::zeros(&device, 4 * LEN).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    four.iter().for_each(|known| settled(|| known.check()));
    // With room on the host they leave, as they were told before.
    device.set_host_limit(u64::MAX).unwrap();
    device.set_limit(u64::MAX).unwrap();
    four.iter_mut().for_each(|known| known.write(known.seed + 10).unwrap());
    assert_eq!(device.stats().offload.resident_bytes, 0);
    four.iter().for_each(|known| known.check().unwrap());
    drop(four);
    assert_nothing_is_left(&device, false, "a host without room");
}

/// If no array can leave because of a failure, the allocation returns that failure, and not a shortage.
#[test]
fn a_device_that_fails_to_copy_is_no_shortage() {
    let _turn = turn();
    let device = Faulty::with_chunks(usize::MAX);
    device.set_limit(ROOM * PAGE as u64).unwrap();
    let mut three = arrays(&device, 1..=3);
    device.arm(Fault::for_ever(1, Failure::Device).only(Call::Copy));
    let error = Array::<u32, _>::zeros(&device, LEN).unwrap_err();
    device.disarm();
    assert!(error.is_device_failure(), "{error}");
    // Other arrays may leave when one fails. The next call returns the failure.
    device.arm(Fault::once(1, Failure::Device).only(Call::Copy));
    let array = Array::<u32, _>::zeros(&device, LEN).unwrap();
    assert!(device.synchronize().is_err_and(|error| error.is_device_failure() && error.is_deferred()));
    device.disarm();
    three.iter_mut().for_each(|known| settled(|| known.check()));
    drop((three, array));
    assert_nothing_is_left(&device, false, "a copy that failed");
}

#[test]
fn an_array_is_usable_after_a_panic_under_its_guard() {
    let _turn = turn();
    let device = Faulty::with_chunks(usize::MAX);
    let mut known = arrays(&device, 1..=1).remove(0);
    for placement in [Placement::Auto, Placement::Host] {
        known.array.set_placement(placement).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _reading = (known.array.fetch().unwrap(), known.array.fetch().unwrap());
            panic!("meant");
        }));
        assert!(panicked.is_err());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _writing = known.array.fetch_mut().unwrap();
            panic!("meant");
        }));
        assert!(panicked.is_err());
        known.check().unwrap();
        known.write(known.seed + 1).unwrap();
        known.check().unwrap();
    }
    drop(known);
    assert_nothing_is_left(&device, false, "panics");
}

/// Copies wait in a queue behind work that does not end, and so do arrays that are dropped meanwhile.
#[test]
fn an_array_that_is_dropped_while_it_is_copied_leaves_others_alone() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let make = |value: u32| {
        let array = host.zeros::<u32>(LEN)?;
        let mut placed = Placed::new(array)?;
        placed.fetch_mut()?.fill(value);
        Ok::<_, Error>(placed)
    };
    for round in 0..20 {
        let (first, second) = (make(1).unwrap(), make(2).unwrap());
        let (go, waits) = channel::<()>();
        let mut busy = host.zeros::<u32>(1).unwrap();
        host.launch(&mut busy, move |_| _ = waits.recv()).unwrap();
        // The copy out waits for the work, and the copy in for the copy out.
        first.set_placement(Placement::Host).unwrap();
        second.set_placement(Placement::Host).unwrap();
        if round % 2 == 0 {
            first.set_placement(Placement::Device).unwrap();
        }
        drop(first);
        let third = Placed::<u32, _>::zeros(&host, LEN).unwrap();
        third.set_placement(Placement::Host).unwrap();
        go.send(()).unwrap();
        assert!(are_all(&second.to_vec().unwrap(), 2), "{round}");
        assert!(are_all(&third.to_vec().unwrap(), 0), "{round}");
    }
}

#[test]
fn guards_that_leaked_keep_their_own_arrays_only() {
    let _turn = turn();
    let device = Faulty::with_chunks(usize::MAX);
    device.set_limit(ROOM * PAGE as u64).unwrap();
    let mut three = arrays(&device, 1..=3);
    std::thread::scope(|threads| {
        let [read, written, _] = &mut three[..] else { panic!("three") };
        let leaks = threads.spawn(|| {
            std::mem::forget(read.array.fetch().unwrap());
            std::mem::forget(written.array.fetch_mut().unwrap());
        });
        leaks.join().unwrap();
    });
    // Both arrays stay: the third one makes room for the others.
    let others = arrays(&device, 4..=6);
    others.iter().for_each(|known| known.check().unwrap());
    [&three[0], &three[2]].iter().for_each(|known| known.check().unwrap());
    three[1].array.set_placement(Placement::Host).unwrap();
    assert_eq!(device.stats().offload.resident_bytes, ROOM * PAGE as u64);
    drop((three, others));
    assert_nothing_is_left(&device, false, "leaked guards");
}
