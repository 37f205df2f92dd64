//! Two GPUs in one thread, and arrays that move between them. The made-up driver shows two devices to this process, if there is no other
//! driver. With a real one, the test needs two GPUs.
//!
//! This is a process of its own, because the number of devices is read once.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![allow(clippy::panic, clippy::unwrap_used, unsafe_code)]

use gpucache::cudarc::driver::LaunchConfig;
use gpucache::prelude::*;
use gpucache::{Result, cache_scope as scope};
use gpucache_tests::conformance::{assert_pattern, pattern, patterned};
use gpucache_tests::gpu::{Kernels, SLOWLY, device, is_made_up, skip};

const LEN: usize = 4096;

/// The default streams of two GPUs, and a stream of its own on each.
struct Two {
    kernels: [Kernels; 2],
    streams: [Cuda; 2],
}

fn two() -> Option<Two> {
    // SAFETY: this is the only thread of the process that runs code of this crate, and the driver was not loaded yet.
    unsafe { std::env::set_var("MADEUP_DEVICES", "2") };
    let first = device()?;
    let second = match Cuda::new(1) {
        Ok(second) => second,
        // A machine with one GPU is no failure, even where a GPU is required.
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            return None;
        }
    };
    let stream = |gpu: &Cuda| Cuda::with_stream(gpu.stream().context().new_stream().unwrap()).unwrap();
    let kernels = [&first, &second].map(|gpu| Kernels::load(gpu.stream().context()));
    let [Some(one), Some(other)] = kernels else {
        skip("the kernels do not compile here");
        return None;
    };
    Some(Two { kernels: [one, other], streams: [stream(&first), stream(&second)] })
}

/// One test after the other, since they share the process.
#[test]
fn arrays_move_between_two_gpus_in_the_order_of_both_streams() {
    let Some(two) = two() else { return };
    copies_wait_for_their_source(&two);
    the_source_may_change_or_go_at_once(&two);
    the_target_is_free_of_earlier_readers(&two);
    lengths_and_shapes(&two).unwrap();
    a_scope_serves_both(&two);
    peers_are_refused_what_they_cannot_do(&two);
}

fn copies_wait_for_their_source(two: &Two) {
    let Two { kernels: [first, _], streams: [a, b] } = two;
    let before = calls();
    let mut from = Array::<u32, _>::zeros(a, LEN).unwrap();
    first.fill_on(a, &mut from, 7, SLOWLY);
    let to = from.to_device(b).unwrap();
    assert_eq!(to.device().stream().context().ordinal(), 1);
    assert_eq!(to.to_vec().unwrap(), [7; LEN]);
    let back = to.to_device(a).unwrap();
    assert_eq!(back.to_vec().unwrap(), [7; LEN]);
    if let (Some(before), Some(after)) = (before, calls()) {
        assert_eq!(after - before, 2, "the GPUs copied, not the host");
    }
}

/// Copies between GPUs that the made-up driver has seen.
fn calls() -> Option<u64> {
    is_made_up().then(|| gpucache_tests::madeup::calls(c"cuMemcpyPeerAsync"))
}

fn the_source_may_change_or_go_at_once(two: &Two) {
    let Two { kernels: [first, second], streams: [a, b] } = two;
    for round in 0..20u32 {
        let mut from = patterned(a, LEN, round).unwrap();
        // The copy is late, because it waits for the target's memory.
        let mut to = Array::<u32, _>::zeros(b, LEN).unwrap();
        second.fill_on(b, &mut to, 1, SLOWLY / 20);
        to.copy_from(&from).unwrap();
        match round % 2 {
            0 => first.fill_on(a, &mut from, 9, 0),
            _ => {
                drop(from);
                let mut next = Array::<u32, _>::zeros(a, LEN).unwrap();
                first.fill_on(a, &mut next, 9, 0);
            }
        }
        assert_pattern(&to, round);
    }
}

fn the_target_is_free_of_earlier_readers(two: &Two) {
    let Two { kernels: [_, second], streams: [a, b] } = two;
    let mut target = patterned(b, LEN, 1).unwrap();
    let mut sums = Array::<u32, _>::zeros(b, LEN).unwrap();
    second.add_on(b, &mut sums, &target, 0, SLOWLY);
    target.copy_from(&patterned(a, LEN, 2).unwrap()).unwrap();
    assert_pattern(&sums, 1);
    assert_pattern(&target, 2);
}

fn lengths_and_shapes(two: &Two) -> Result<()> {
    let [a, b] = &two.streams;
    let from = Array::from_slice(a, [2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    assert_eq!(from.to_device(b)?.shape(), [2, 3]);
    let mut flat = Array::<f32, _>::zeros(b, 6)?;
    flat.copy_from(&from)?;
    assert_eq!(flat.to_vec()?, from.to_vec()?);
    let mut short = Array::<f32, _>::zeros(b, 5)?;
    assert!(short.copy_from(&from).unwrap_err().is_invalid_shape());
    assert!(Array::<f32, _>::zeros(a, 0)?.to_device(b)?.is_empty());
    // Between kinds of devices.
    let host = from.to_device(&Host::new_stream()?)?;
    assert_eq!(host.to_device(b)?.to_vec()?, from.to_vec()?);
    Ok(())
}

/// A scope with arrays of both devices allocates nothing once it is warm.
fn a_scope_serves_both(two: &Two) {
    let [a, b] = &two.streams;
    for round in 0..12u32 {
        let before = [a, b].map(|gpu| gpu.memory().times_taken());
        scope!(stages_on_two_gpus, {
            let first = patterned(a, LEN, round).unwrap();
            let second = first.to_device(b).unwrap();
            drop(first);
            assert_pattern(&second.to_device(a).unwrap(), round);
            assert_eq!(second.to_vec().unwrap(), pattern(round, LEN));
        });
        if round > 6 {
            assert_eq!([a, b].map(|gpu| gpu.memory().times_taken()), before, "round {round}");
        }
    }
    let _ = invalidate("stages_on_two_gpus");
}

fn peers_are_refused_what_they_cannot_do(two: &Two) {
    let [a, b] = &two.streams;
    let array = patterned(a, LEN, 1).unwrap();
    assert!(array.announce_read(b).unwrap_err().is_unavailable());
    let refused = a.capture(|| array.to_device(b).map(drop)).map(drop).unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    assert_pattern(&array.to_device(b).unwrap(), 1);
    a_refused_launch_stays_refused(two);
}

fn a_refused_launch_stays_refused(two: &Two) {
    let Two { kernels: [_, second], streams: [a, b] } = two;
    let (mut array, value, len, nanoseconds) = (patterned(a, 4, 1).unwrap(), 9u32, 4u32, 0u64);
    let mut launch = second.launch_fill(b);
    launch.arg(&mut array).arg(&value).arg(&len).arg(&nanoseconds);
    for _ in 0..2 {
        // SAFETY: these are the arguments of the kernel, and it writes as many elements as there are.
        let refused = unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.unwrap_err();
        assert!(refused.is_unavailable(), "{refused}");
    }
    assert_pattern(&array, 1);
}
