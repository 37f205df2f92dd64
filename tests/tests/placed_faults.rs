//! What fails while arrays move between a device and the host, and when: every call of every move, on either side. Nothing may panic,
//! leak or be lost.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::sync::mpsc::channel;

use gpucache::device::Device;
use gpucache::{Error, Placed, Placement, Result, limit, limit_host, placed_stats, prelude::*, trim};
use gpucache_tests::conformance::pattern;
use gpucache_tests::faulty::{Failure, Fault};
use gpucache_tests::{Faulty, turn};

const PAGE: usize = 2 << 20;
/// Elements of an array, which is a chunk of its own on either side.
const LEN: usize = PAGE / 4;
/// Arrays that may be on the device at once.
const ROOM: u64 = 3;

/// An array, and what is in it.
struct Known {
    array: Placed<u32, Faulty>,
    seed: u32,
}

fn cut(values: &[u32]) -> [u32; 3] {
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

impl Known {
    /// Zeros until it is written.
    fn write(&mut self, seed: u32) -> Result<()> {
        self.array.fetch_mut()?.copy_from_slice(&pattern(seed, LEN))?;
        self.seed = seed;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let values = self.array.to_vec()?;
        let expected = if self.seed == 0 { [0; 3] } else { cut(&pattern(self.seed, LEN)) };
        assert_eq!(cut(&values), expected, "the contents of {}", self.seed);
        Ok(())
    }
}

/// What a program has, and what it met.
#[derive(Default)]
struct Run {
    alive: Vec<Known>,
    errors: Vec<Error>,
}

impl Run {
    fn note<T>(&mut self, answer: Result<T>) -> Option<T> {
        answer.map_err(|error| self.errors.push(error)).ok()
    }

    /// More arrays than there is room for, all of whose moves happen: written, read, left and brought by placement, cloned, taken.
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

/// Makes a call until it does not tell of an earlier one.
fn settled<T>(mut call: impl FnMut() -> Result<T>) -> T {
    for _ in 0..100 {
        match call() {
            Err(error) if error.is_deferred() => {}
            answer => return answer.expect("nothing fails any more"),
        }
    }
    panic!("there is no end to earlier failures");
}

fn assert_nothing_is_left(device: &Faulty, when: &str) {
    settled(|| device.synchronize());
    settled(|| trim(device));
    for side in [device, &device.host_side()] {
        assert_eq!(side.violations(), [""; 0], "{when}");
        assert_eq!(side.live(), [0; 0], "{when}");
    }
    assert_eq!((device.memory().bytes, placed_stats(device).resident_bytes), (0, 0), "{when}");
}

/// Runs the program once for every call that it makes of a side, with a fault there. Returns how many there are.
fn at_every_call(of_host: bool, make: impl Fn(u64) -> Fault) -> u64 {
    for at in 1.. {
        let device = Faulty::with_chunks(usize::MAX);
        limit(&device, ROOM * PAGE as u64);
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
        run.alive.iter().for_each(|known| settled(|| known.check()));
        assert!(device.memory().bytes <= ROOM * PAGE as u64);
        drop(run.alive);
        assert_nothing_is_left(&device, &when);
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
        let calls = at_every_call(false, |at| Fault::once(at, failure));
        assert!(calls > 40, "{calls}");
        assert!(at_every_call(false, |at| Fault::for_ever(at, failure)) > 40);
    }
}

#[test]
fn whatever_call_of_the_host_side_fails_no_contents_are_lost() {
    let _turn = turn();
    for failure in [Failure::Device, Failure::OutOfMemory] {
        let calls = at_every_call(true, |at| Fault::once(at, failure));
        assert!(calls > 5, "{calls}");
        assert!(at_every_call(true, |at| Fault::for_ever(at, failure)) > 5);
    }
}
