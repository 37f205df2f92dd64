//! Captured scopes on a device whose calls fail: a run returns the error, or its work is done once and in full.

use gpucache::graph::CapturedScope;
use gpucache::{Array, invalidate, stats};
use gpucache_tests::faulty::{Call, Failure, Fault};
use gpucache_tests::{Faulty, turn};

const LEN: usize = 4;
const RUNS: u32 = 16;

/// Drops all memory, and checks that the engine kept the device's rules.
fn end(device: &Faulty, name: &str) {
    let _ = invalidate(name);
    if stats(&format!("{name}, outputs")).is_some() {
        let _ = invalidate(&format!("{name}, outputs"));
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
