//! Captured scopes on CUDA: a GPU, or the made-up driver.
#![cfg(feature = "cuda")]
#![allow(clippy::panic, clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gpucache::graph::CapturedScope;
use gpucache::prelude::*;
use gpucache_tests::captured::{Adds, Program};
use gpucache_tests::gpu::{Gpu, is_made_up};
use gpucache_tests::meanwhile::End;

const LEN: usize = 4096;

/// `x + 3`, by way of arrays that live for two kernels each.
fn step(x: &Array<u32, Cuda>) -> gpucache::Result<Array<u32, Cuda>> {
    let gpu = x.device().clone();
    let mut first = gpu.zeros(x.len())?;
    gpu.add(&mut first, x, 1)?;
    let mut second = gpu.zeros(x.len())?;
    gpu.add(&mut second, &first, 1)?;
    drop(first);
    let mut third = gpu.zeros(x.len())?;
    gpu.add(&mut third, &second, 1)?;
    Ok(third)
}

#[test]
fn a_step_is_captured_and_launched() {
    let Some(gpu) = Gpu::get() else { return };
    if gpu.kernels().is_none() {
        return;
    }
    let stream = gpu.new_stream();
    let mut scope = CapturedScope::new(&stream, "cuda captured: step");
    let mut held = Vec::new();
    for number in 0..40 {
        let input = Array::full(&stream, LEN, number).unwrap();
        held.push((number, scope.run((), &input, step).unwrap()));
        if number % 3 == 0 {
            held.remove(0);
        }
        for (number, output) in &held {
            assert_eq!(output.to_vec().unwrap(), vec![number + 3; LEN], "{}", scope.stats());
        }
    }
    let stats = scope.stats();
    assert!(stats.launches >= 25, "{stats}");
    // A real driver may keep a small executable in memory that it already holds.
    assert!(stats.executable_bytes > 0 || !is_made_up(), "{stats}");
}

/// The reason why a block that uses another array than its inputs has no graph.
fn refusal(device: &Cuda, name: &str) -> String {
    let other = Array::full(device, LEN, 7u32).unwrap();
    let mut scope = CapturedScope::new(device, name);
    for _ in 0..30 {
        let output = scope.run((), (), |()| {
            let mut y = device.zeros(LEN)?;
            device.add(&mut y, &other, 1)?;
            Ok::<_, gpucache::Error>(y)
        });
        assert_eq!(output.unwrap().to_vec().unwrap(), vec![8; LEN]);
    }
    scope.stats().last_refusal.unwrap()
}

#[test]
fn a_refusal_names_the_kernel() {
    let Some(gpu) = Gpu::get() else { return };
    if gpu.kernels().is_none() {
        return;
    }
    let why = refusal(&gpu.new_stream(), "cuda captured: names the kernel");
    assert!(why.contains("argument 2 of the kernel `add` is memory that is no input, at 0x"), "{why}");
    #[cfg(target_os = "linux")]
    if is_made_up() {
        gpucache_tests::madeup::fail(c"cuFuncGetName", 0, u64::MAX, 1);
        let why = refusal(&gpu.new_stream(), "cuda captured: without a name");
        gpucache_tests::madeup::fail(c"cuFuncGetName", 0, 0, 0);
        assert!(why.contains("argument 2 of a kernel is memory that is no input, at 0x"), "{why}");
    }
}

/// `PROGRAMS`, `SEED` and `STEPS` say which programs run, and how long.
#[test]
fn random_programs_agree_with_the_model() {
    let Some(gpu) = Gpu::get() else { return };
    if gpu.kernels().is_none() {
        return;
    }
    let steps = gpucache_tests::process::number("STEPS").unwrap_or(200) as usize;
    let mut launches = 0;
    gpucache_tests::seeds::each(40, 1, |seed| {
        launches += Program::new(&gpu.new_stream(), "cuda captured: programs", seed).run(steps);
    });
    assert!(launches > 0);
}

/// The driver's functions that a capture, an executable or a launch calls.
#[cfg(target_os = "linux")]
const CALLS: [&std::ffi::CStr; 16] = [
    c"cuStreamIsCapturing",
    c"cuStreamBeginCapture_v2",
    c"cuStreamEndCapture",
    c"cuGraphGetNodes",
    c"cuGraphNodeGetType",
    c"cuGraphKernelNodeGetParams_v2",
    c"cuGraphMemcpyNodeGetParams",
    c"cuGraphMemsetNodeGetParams",
    c"cuFuncGetParamInfo",
    c"cuGraphInstantiateWithFlags",
    c"cuGraphUpload",
    c"cuGraphExecUpdate_v2",
    c"cuGraphExecKernelNodeSetParams_v2",
    c"cuGraphExecMemcpyNodeSetParams",
    c"cuGraphLaunch",
    c"cuLaunchKernel",
];

/// Each call of the driver fails once, or from then on, at each place of a program. A run then gives the right values, or an error, and
/// nothing stays captured. Once the calls go as usual again, so do the runs.
#[test]
#[cfg(target_os = "linux")]
fn failures_leave_nothing_captured() {
    use gpucache_tests::madeup;
    const OUT_OF_MEMORY: u32 = 2;
    let Some(gpu) = Gpu::get() else { return };
    if !is_made_up() {
        return eprintln!("SKIPPED: only the made-up driver fails on purpose");
    }
    for name in CALLS {
        for (after, times) in (0..8).flat_map(|after| [(after, 1), (after, u64::MAX)]) {
            // If no call ends a capture, it cannot end.
            let times = if name == c"cuStreamEndCapture" { times.min(1) } else { times };
            let stream = gpu.new_stream();
            let mut scope = CapturedScope::new(&stream, "cuda captured: failures");
            // Keeps one array in two of three rounds, so that outputs and inputs move.
            let mut held = None;
            for number in 0..40 {
                if number == 3 {
                    madeup::fail(name, after, times, OUT_OF_MEMORY);
                } else if number == 14 {
                    madeup::fail(name, 0, 0, 0);
                }
                let input = Array::full(&stream, LEN, number);
                let done = input.and_then(|input| scope.run((), &input, step));
                let status = stream.stream().capture_status();
                assert!(status.is_err() || format!("{status:?}").contains("NONE"), "{name:?} {after}: {status:?}");
                match done.and_then(|output| output.to_vec().map(|values| (output, values))) {
                    Ok((output, values)) => {
                        assert_eq!(values, vec![number + 3; LEN], "{name:?} {after} {times}, {}", scope.stats());
                        held = (number % 3 > 0).then_some(output);
                    }
                    Err(error) => assert!((3..=15).contains(&number), "{name:?} {after} in run {number}: {error}"),
                }
            }
            drop(held);
            let stats = scope.stats();
            assert!(stats.launches >= 4, "{name:?} {after} {times}: {stats}");
            drop(scope);
            let _ = invalidate("cuda captured: failures");
        }
    }
}

/// Threads capture and launch on streams of their own, while another thread calls the driver.
#[test]
fn threads_capture_at_once() {
    let Some(gpu) = Gpu::get() else { return };
    if gpu.kernels().is_none() {
        return;
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _end = End(&is_over);
        let programs: Vec<_> = (0..4)
            .map(|seed| {
                let stream = gpu.new_stream();
                threads.spawn(move || {
                    Program::new(&stream, "cuda captured: threads", 100 + seed).without_limits().run(150)
                })
            })
            .collect();
        threads.spawn(|| {
            while !is_over.load(Relaxed) {
                let array = gpu.cuda.zeros::<u32>(1 << 20).unwrap();
                gpu.cuda.synchronize().unwrap();
                drop(array);
                gpu.cuda.trim();
            }
        });
        let launches: u64 = programs.into_iter().map(|program| program.join().unwrap()).sum();
        assert!(launches > 0);
    });
}

/// A thread on which no context is current, too, sees that other code captures the stream: the run then belongs to that capture.
#[test]
fn a_run_on_a_new_thread_sees_a_capture_of_other_code() {
    let Some(gpu) = Gpu::get() else { return };
    if gpu.kernels().is_none() {
        return;
    }
    let stream = gpu.new_stream();
    let input = Array::full(&stream, LEN, 1u32).unwrap();
    let mut output = Array::zeros(&stream, LEN).unwrap();
    let mut scope = CapturedScope::new(&stream, "cuda captured: capture of other code");
    let add = |scope: &mut CapturedScope<(), Cuda>, output: &mut Array<u32, Cuda>| -> gpucache::Result<()> {
        scope.run((), (&input, output), |(input, output)| stream.add(output, input, 1))
    };
    for _ in 0..10 {
        add(&mut scope, &mut output).unwrap();
    }
    let launches = scope.stats().launches;
    assert!(launches > 0, "{}", scope.stats());
    let mode = cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    stream.stream().begin_capture(mode).unwrap();
    std::thread::scope(|threads| {
        // An array that is in no scope and that the capture reserves nothing for: the run itself may fail, but it launches no graph.
        let _ = threads.spawn(|| add(&mut scope, &mut output)).join();
    });
    let flags = cudarc::driver::sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    drop(stream.stream().end_capture(flags));
    assert_eq!(scope.stats().launches, launches, "{}", scope.stats());
    add(&mut scope, &mut output).unwrap();
    assert_eq!(scope.stats().launches, launches + 1, "{}", scope.stats());
    assert_eq!(output.to_vec().unwrap(), vec![2; LEN]);
}

/// The run that captures a block has no effect on a GPU before its graph is launched. A block that exchanged its inputs cannot run again.
#[test]
fn a_block_that_exchanges_its_inputs_is_an_error_and_never_a_wrong_value() {
    let Some(gpu) = Gpu::get() else { return };
    if gpu.kernels().is_none() {
        return;
    }
    let stream = gpu.new_stream();
    let mut scope = CapturedScope::new(&stream, "cuda captured: exchange");
    let (mut now, mut next) = (Array::full(&stream, LEN, 0u32).unwrap(), Array::full(&stream, LEN, 0u32).unwrap());
    let mut errors = 0;
    for _ in 0..12 {
        let before = now.to_vec().unwrap()[0];
        let done = scope.run((), (&mut now, &mut next), |(now, next)| {
            stream.add(next, now, 1)?;
            std::mem::swap(now, next);
            Ok::<_, gpucache::Error>(())
        });
        match done {
            Ok(()) => assert_eq!(now.to_vec().unwrap(), [before + 1; LEN], "{}", scope.stats()),
            Err(error) => {
                assert!(error.is_unavailable() && error.to_string().contains("in the place of its inputs"), "{error}");
                errors += 1;
            }
        }
    }
    assert!(errors > 0 && scope.stats().launches == 0, "{errors} errors: {}", scope.stats());
}
