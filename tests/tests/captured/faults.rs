//! Captured scopes on a device whose calls fail: a run returns the error, or its work is done once and in full.

use gpucache::device::Device;
use gpucache::graph::CapturedScope;
use gpucache::{Array, Error, Result, invalidate, stats};
use gpucache_tests::faulty::{Call, Failure, Fault};
use gpucache_tests::{Faulty, turn};

type Values = Array<u32, Faulty>;

const LEN: usize = 4;
const RUNS: u32 = 16;

/// Drops all memory, and checks that the engine kept the device's rules.
fn end(device: &Faulty, name: &str) {
    let _ = invalidate(name);
    let outputs = format!("{name}, outputs");
    if stats(&outputs).is_some() {
        let _ = invalidate(&outputs);
    }
    assert_eq!(device.violations(), [""; 0], "{name}");
    assert_eq!(device.live(), [0; 0], "{name}");
}

/// In each run in turn, the copy of the result fails: in a direct run, in that of the capture, and in a launch.
#[test]
fn a_result_that_is_not_copied_is_an_error() {
    let _turn = turn();
    for bad in 0..RUNS {
        let (device, name) = (Faulty::with_chunks(1 << 26), format!("faults: result {bad}"));
        let mut scope = CapturedScope::new(&device, &name);
        let mut input = Array::full(&device, LEN, 0).unwrap();
        for run in 0..RUNS {
            input.copy_from_slice(&[run; LEN]).unwrap();
            if run == bad {
                device.arm(Fault::once(2, Failure::Device).only(Call::Copy));
            }
            match scope.run((), &input, |input| input.try_clone()) {
                Ok(output) => assert_eq!(output.to_vec().unwrap(), [run; LEN], "run {run}: {}", scope.stats()),
                Err(error) => assert_eq!(run, bad, "{error}"),
            }
        }
        let stats = scope.stats();
        assert_eq!(stats.launches + stats.captures + stats.direct, u64::from(RUNS), "{stats}");
        assert!(stats.captures > 0 && stats.launches > 0, "{stats}");
        drop((scope, input));
        end(&device, &name);
    }
}

/// In each run in turn, an earlier failure is told. The run then does nothing, and is no launch.
#[test]
fn a_run_that_tells_an_earlier_failure_is_no_launch() {
    let _turn = turn();
    for bad in 0..RUNS {
        let (device, name) = (Faulty::with_chunks(1 << 26), format!("faults: earlier {bad}"));
        let mut scope = CapturedScope::new(&device, &name);
        for _ in 0..bad {
            drop(scope.run((), (), |()| Array::full(&device, LEN, 1)).unwrap());
        }
        let before = scope.stats();
        device.stream_handle().keep(Error::device_failure("a device", "earlier work", "it failed on purpose"));
        assert!(scope.run((), (), |()| Array::full(&device, LEN, 1)).unwrap_err().is_deferred());
        let stats = scope.stats();
        assert_eq!(stats.launches, before.launches, "run {bad}: {stats}");
        assert_eq!(stats.launches + stats.captures + stats.direct, u64::from(bad) + 1, "run {bad}: {stats}");
        drop(scope);
        end(&device, &name);
    }
}

/// Exchanges the contents of `a` and `b`.
fn exchange((a, b, t): (&mut Values, &mut Values, &mut Values)) -> Result<()> {
    t.copy_from(a)?;
    a.copy_from(b)?;
    b.copy_from(t)
}

/// In each run in turn, one of the copies fails. A launch that did a part of the work returns the error, since the block would begin with what
/// that part left. If the launch did nothing, the block does the work.
#[test]
fn work_that_was_done_in_part_is_not_done_again() {
    let _turn = turn();
    let mut done_by_block = 0;
    for (bad, copy) in (0..RUNS).flat_map(|run| (1..=3).map(move |copy| (run, copy))) {
        let (device, name) = (Faulty::with_chunks(1 << 26), format!("faults: exchange {bad} {copy}"));
        let mut scope = CapturedScope::new(&device, &name);
        let [mut a, mut b, mut t] = [1u32, 2, 3].map(|value| Array::full(&device, LEN, value).unwrap());
        for run in 0..bad {
            scope.run((), (&mut a, &mut b, &mut t), exchange).unwrap();
            let expected = if run % 2 == 0 { [2; LEN] } else { [1; LEN] };
            assert_eq!(a.to_vec().unwrap(), expected, "run {run}: {}", scope.stats());
        }
        let before = [&a, &b].map(|array| array.to_vec().unwrap());
        device.arm(Fault::once(copy, Failure::Device).only(Call::Copy));
        if scope.run((), (&mut a, &mut b, &mut t), exchange).is_ok() {
            assert_eq!(copy, 1, "run {bad}: {}", scope.stats());
            assert_eq!([&b, &a].map(|array| array.to_vec().unwrap()), before, "run {bad}: {}", scope.stats());
            done_by_block += 1;
        }
        let stats = scope.stats();
        assert_eq!(stats.launches + stats.captures + stats.direct, u64::from(bad) + 1, "{stats}");
        drop((scope, a, b, t));
        end(&device, &name);
    }
    assert!(done_by_block > 0, "no launch failed before it had done work");
}
