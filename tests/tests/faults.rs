//! Failures of every backend call of a program, in every way. Nothing may panic, leak or be lost.
//!
//! The tests take turns, since a shortage on one device takes the idle memory of all scopes of the process.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use gpucache::device::Device;
use gpucache::{Array, Error, Result, cache_scope, invalidate, stats, uncached};
use gpucache_tests::conformance::{assert_pattern, pattern, patterned};
use gpucache_tests::faulty::{Call, Failure, Fault};
use gpucache_tests::{Faulty, supplied, turn};

/// The scopes of the program.
const NAMES: [&str; 3] = ["outer", "inner", "off"];

/// The scope names of one run of the program.
struct Names(String);

impl Names {
    fn of(&self, name: &str) -> String {
        format!("{}::{name}", self.0)
    }

    /// Drops all memory, and checks that nothing is left and nothing is lost.
    fn assert_nothing_is_left(&self, device: &Faulty, when: &str) {
        for name in NAMES.map(|name| self.of(name)) {
            let _ = invalidate(&name);
            let stats = stats(&name).unwrap_or_default();
            let left = (stats.busy_blocks, stats.busy_bytes, stats.idle_blocks, stats.idle_bytes);
            assert_eq!(left, (0, 0, 0, 0), "{when}: `{name}`");
        }
        assert_eq!(device.violations(), [""; 0], "{when}");
        assert_eq!(device.live(), [0; 0], "{when}");
    }
}

/// How a program goes on after each step.
trait Policy {
    fn step<T>(&mut self, answer: Result<T>) -> Result<Option<T>>;
}

/// Ends the program at the first failure.
struct Stop;

/// Goes on with the remaining arrays, and keeps the failures.
#[derive(Default)]
struct GoOn(Vec<Error>);

impl Policy for Stop {
    fn step<T>(&mut self, answer: Result<T>) -> Result<Option<T>> {
        answer.map(Some)
    }
}

impl Policy for GoOn {
    fn step<T>(&mut self, answer: Result<T>) -> Result<Option<T>> {
        Ok(answer.map_err(|error| self.0.push(error)).ok())
    }
}

/// Nested scopes, arrays that outlive entries, every constructor and every operation, an invalidation, and drops on other threads.
fn program(device: &Faulty, names: &Names, policy: &mut impl Policy) -> Result<Vec<Array<u32, Faulty>>> {
    let (outer, inner) = (names.of("outer"), names.of("inner"));
    let mut escaped = Vec::new();
    for round in 0..3 {
        cache_scope!(name = &outer, {
            let held = policy.step(patterned(device, 20, round))?;
            drop(policy.step(Array::<f64, _>::zeros(device, [3, 3]))?);
            cache_scope!(name = &inner, {
                drop(policy.step(Array::full(device, 20, [1u8, 2, 3]))?);
                escaped.extend(policy.step(patterned(device, 20, 100 + round))?);
                if let Some(held) = &held {
                    escaped.extend(policy.step(held.try_clone())?);
                }
            });
            without_recycling(device, names, policy)?;
            if let Some(mut held) = held {
                policy.step(held.copy_from_slice(&pattern(7, 20)))?;
                elsewhere(device, &outer, held, policy)?;
            }
            if round == 1 {
                let _ = invalidate(&inner);
                escaped.clear();
            }
        });
        for array in &escaped {
            policy.step(array.to_vec())?;
        }
    }
    Ok(escaped)
}

fn without_recycling(device: &Faulty, names: &Names, policy: &mut impl Policy) -> Result<()> {
    cache_scope!(name = names.of("off"), recycle = "off", {
        drop(policy.step(patterned(device, 11, 0))?);
        let plain = uncached!({ policy.step(Array::<u8, _>::zeros(device, 9))? });
        policy.step(plain.map(|plain| plain.to_vec()).transpose())?;
    });
    Ok(())
}

/// Hands an array to a thread that allocates in the same scope, drops both, and ends.
fn elsewhere(device: &Faulty, name: &str, array: Array<u32, Faulty>, policy: &mut impl Policy) -> Result<()> {
    let answer = std::thread::scope(|threads| {
        let thread = threads.spawn(|| {
            cache_scope!(name = name, {
                drop(array);
                let first = patterned(device, 20, 50)?;
                drop(Array::<u32, _>::zeros(device, 20)?);
                Ok(first)
            })
        });
        thread.join().expect("no fault panics")
    });
    policy.step(answer).map(drop)
}

/// Runs the program once for each call that it makes, with a fault at that call.
fn at_every_call(title: &str, make: impl Fn(u64) -> Fault, run: impl Fn(&Faulty, &Names) -> Vec<Error>) {
    let mut at = 1;
    loop {
        let (device, names) = (Faulty::new(), Names(format!("{title} {at}")));
        device.arm(make(at));
        let errors = run(&device, &names);
        let failures = device.failures();
        device.disarm();
        names.assert_nothing_is_left(&device, &names.0);
        errors.iter().for_each(|error| assert_typed(error, &names.0));
        healthy_again(&device, &names);
        if failures == 0 {
            assert!(at > 50, "the program makes calls: {at}");
            return assert!(errors.is_empty());
        }
        at += 1;
    }
}

fn assert_typed(error: &Error, when: &str) {
    assert!(error.is_device_failure() != error.is_out_of_memory(), "{when}: {error}");
    assert!(!error.is_invalid_shape() && !error.is_unavailable(), "{when}: {error}");
}

/// Once nothing fails any more, the same program works, on the same device and in the same scopes.
fn healthy_again(device: &Faulty, names: &Names) {
    while let Err(error) = device.synchronize() {
        assert!(error.is_deferred(), "{error}");
    }
    let escaped = program(device, names, &mut Stop).expect("nothing fails any more");
    assert_eq!(escaped.len(), 2);
    assert_pattern(&escaped[0], 102);
    assert_pattern(&escaped[1], 2);
    drop(escaped);
    names.assert_nothing_is_left(device, "afterwards");
}

fn stopping(device: &Faulty, names: &Names) -> Vec<Error> {
    program(device, names, &mut Stop).err().into_iter().collect()
}

fn going_on(device: &Faulty, names: &Names) -> Vec<Error> {
    let mut policy = GoOn::default();
    drop(program(device, names, &mut policy).expect("this policy never stops"));
    policy.0
}

#[test]
fn one_failure_stops_the_program() {
    let _turn = turn();
    at_every_call("stop once", |at| Fault::once(at, Failure::Device), stopping);
    at_every_call("stop once, memory", |at| Fault::once(at, Failure::OutOfMemory), stopping);
}

#[test]
fn failures_for_ever_stop_the_program() {
    let _turn = turn();
    at_every_call("stop", |at| Fault::for_ever(at, Failure::Device), stopping);
    at_every_call("stop, memory", |at| Fault::for_ever(at, Failure::OutOfMemory), stopping);
}

#[test]
fn the_program_goes_on_after_one_failure() {
    let _turn = turn();
    at_every_call("go on once", |at| Fault::once(at, Failure::Device), going_on);
    at_every_call("go on once, memory", |at| Fault::once(at, Failure::OutOfMemory), going_on);
}

#[test]
fn the_program_goes_on_with_failures_for_ever() {
    let _turn = turn();
    at_every_call("go on", |at| Fault::for_ever(at, Failure::Device), going_on);
    at_every_call("go on, memory", |at| Fault::for_ever(at, Failure::OutOfMemory), going_on);
}

/// A free fails, and then `call` is made: it returns that failure and does nothing else. It can then be made again.
fn returns_the_failure<T>(call: impl Fn(&Faulty, &mut Array<u8, Faulty>) -> Result<T>) {
    let device = Faulty::new();
    let [mut array, dropped] = [(); 2].map(|()| Array::<u8, _>::zeros(&device, 4).unwrap());
    device.arm(Fault::once(1, Failure::Device).only(Call::Free));
    drop(dropped);
    let before = device.calls();
    let Err(error) = call(&device, &mut array) else { panic!("the failure is lost") };
    assert!(error.is_deferred() && error.is_device_failure() && !error.is_out_of_memory(), "{error}");
    assert!(error.to_string().contains("a free failed"), "{error}");
    assert_eq!(device.calls(), before, "the call did nothing else");
    assert!(call(&device, &mut array).is_ok(), "and can be made again");
    drop(array);
    let _ = invalidate("a failed free");
    device.assert_clean();
}

#[test]
fn a_failure_in_a_drop_is_returned_by_the_next_call() {
    let _turn = turn();
    returns_the_failure(|device, _| Array::<u8, _>::zeros(device, 3));
    returns_the_failure(|device, _| Array::full(device, 3, 1u8));
    returns_the_failure(|device, _| Array::from_slice(device, 3, &[1u8; 3]));
    returns_the_failure(|device, _| Array::<u8, _>::zeros(device, 0));
    returns_the_failure(|_, array| array.to_vec());
    returns_the_failure(|_, array| array.copy_from_slice(&[1; 4]));
    returns_the_failure(|_, array| array.try_clone());
    returns_the_failure(|device, _| device.synchronize());
    returns_the_failure(|device, _| cache_scope!("a failed free", { Array::<u8, _>::zeros(device, 3) }));
}

#[test]
fn a_failure_in_an_invalidation_is_kept_by_the_stream_that_had_it() {
    let _turn = turn();
    let (device, name) = (Faulty::new(), "a failed invalidation");
    let healthy = device.another_stream();
    // Inside the scope, so that no shortage elsewhere takes the idle blocks.
    cache_scope!(name = name, {
        drop([patterned(&device, 10, 0).unwrap(), patterned(&device, 10, 1).unwrap()]);
        drop(patterned(&healthy, 10, 2).unwrap());
        device.arm(Fault::once(1, Failure::Device).only(Call::Free));
        assert_eq!(invalidate(name).bytes, 120);
    });
    assert_eq!(device.live(), [0; 0], "the others went, and a failed free counts as gone");
    let answers = [&healthy, &device, &device].map(|stream| patterned(stream, 10, 3).map_err(|e| e.is_deferred()));
    let kept = answers.iter().filter(|answer| answer.as_ref().is_err_and(|&deferred| deferred)).count();
    assert_eq!(kept, 1);
}

#[test]
fn the_first_of_several_failures_is_kept() {
    let _turn = turn();
    let device = Faulty::new();
    let [first, second] = [(); 2].map(|()| patterned(&device, 10, 0).unwrap());
    device.arm(Fault::once(1, Failure::OutOfMemory).only(Call::Free));
    drop(first);
    device.arm(Fault::once(1, Failure::Device).only(Call::Free));
    drop(second);
    let error = patterned(&device, 10, 0).unwrap_err();
    assert!(error.is_deferred() && error.is_out_of_memory() && !error.is_device_failure(), "{error}");
    drop(patterned(&device, 10, 0).unwrap());
    device.assert_clean();
}

#[test]
fn a_failed_fill_leaves_no_array_and_keeps_the_block() {
    let _turn = turn();
    let (device, name) = (Faulty::new(), "a failed fill");
    cache_scope!(name = name, {
        device.arm(Fault::once(1, Failure::Device).only(Call::Fill));
        assert!(Array::<u8, _>::zeros(&device, 10).unwrap_err().is_device_failure());
        assert_eq!(Array::<u8, _>::zeros(&device, 10).unwrap().to_vec().unwrap(), [0; 10]);
    });
    let stats = stats(name).unwrap();
    assert_eq!((stats.hits, supplied(&stats), stats.busy_blocks, stats.idle_blocks), (1, 1, 0, 1));
    let _ = invalidate(name);
    device.assert_clean();
}

/// While the device has more memory, memory that another stream works on is left alone. It is available again once that work is
/// done.
#[test]
fn memory_that_another_stream_works_on_is_left_alone() {
    let _turn = turn();
    let first = Faulty::with_chunks(usize::MAX);
    let (second, name) = (first.another_stream(), "memory that another stream works on");
    let bytes = 2 << 20;
    let twice = |stream: &Faulty| {
        cache_scope!(name = name, recycle = "range", {
            (0..2).for_each(|_| drop(patterned(stream, bytes, 1).unwrap()));
        })
    };
    first.set_lagging(true);
    twice(&first);
    twice(&second);
    twice(&first);
    assert_eq!((first.calls().of(Call::Allocate), first.ordering().waits), (2, 0));
    assert!(first.ordering().events <= 2, "{:?}", first.ordering());
    first.set_lagging(false);
    let third = first.another_stream();
    twice(&third);
    assert_eq!((first.calls().of(Call::Allocate), first.ordering().waits), (2, 0));
    let _ = invalidate(name);
    first.trim();
    first.assert_clean();
}

#[test]
fn memory_that_cannot_be_ordered_is_refused_and_not_lost() {
    let _turn = turn();
    for call in [Call::NewEvent, Call::Record, Call::Wait] {
        // The first stream has all the memory there is, and its work is not done.
        let first = Faulty::with_chunks(2 << 20);
        first.set_lagging(true);
        let (second, name) = (first.another_stream(), "memory of another stream");
        cache_scope!(name = name, {
            // With so many sizes a scope keeps little. Most memory goes back to the range, where the stream may still use it.
            drop((0..12).map(|more| patterned(&first, 20_000 + more, 1)).collect::<Result<Vec<_>>>().unwrap());
            second.arm(Fault::once(1, Failure::Device).only(call));
            assert!(patterned(&second, 20_000, 2).unwrap_err().is_device_failure(), "{call:?}");
            drop(patterned(&second, 20_000, 3).unwrap());
        });
        first.set_lagging(false);
        assert_eq!((first.live().len(), second.ordering().waits > 0), (1, true), "{call:?}");
        let _ = invalidate(name);
        first.trim();
        first.assert_clean();
    }
}
