//! `double_free`, `no_context` and `no_driver`: mistakes and missing parts have the same results as with the driver and cudarc
//! alone.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys::CUresult};

use crate::report::{Outcome, Report, ensure};
use crate::slices::{check, patterned};
use crate::{driver, front_end};

const BYTES: usize = 10_000;
const ROUNDS: u32 = 10;

/// Whether the driver refuses a value because it does not know it.
fn is_refused(answer: Result<(), DriverError>, what: &str) -> Outcome<()> {
    let expected = Err(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE));
    ensure(answer == expected, || format!("{what}: {answer:?}"))
}

/// Frees memory twice, and frees memory that was never allocated. Afterwards no two allocations have the same memory.
fn free_twice(stream: &CudaStream) -> Outcome<()> {
    let raw = stream.cu_stream();
    // SAFETY: nothing uses the memory. The driver returns an error for a free of memory that is not allocated.
    let addresses = unsafe {
        let address = result::malloc_async(raw, BYTES)?;
        is_refused(result::free_async(address + 512, raw), "a free within an allocation")?;
        result::free_async(address, raw)?;
        is_refused(result::free_async(address, raw), "a second free")?;
        is_refused(result::free_sync(address), "a second free, without a stream")?;
        is_refused(result::free_async(0x1000, raw), "a free of what was never allocated")?;
        let addresses = [result::malloc_async(raw, BYTES)?, result::malloc_async(raw, BYTES)?];
        addresses.iter().try_for_each(|address| result::free_async(*address, raw))?;
        addresses
    };
    ensure(addresses[0].abs_diff(addresses[1]) >= BYTES as u64, || "two allocations share memory".into())
}

pub(crate) fn double_free() -> Outcome {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    for _ in 0..ROUNDS {
        front_end::scoped(|| free_twice(&stream))?;
        free_twice(&stream)?;
    }
    front_end::add_to(Report::default().number("rounds", u64::from(ROUNDS)))
}

/// The error that cudarc kept of a drop on a thread without a context: none, or that there is no context.
fn drop_without_context(context: &Arc<CudaContext>, stream: &Arc<CudaStream>, seed: u32) -> Outcome<bool> {
    let slice = front_end::scoped(|| patterned(stream, seed, BYTES))?;
    stream.synchronize()?;
    std::thread::spawn(move || drop(slice)).join().map_err(|_| "the drop panicked")?;
    let kept = context.check_err();
    let expected = [Ok(()), Err(DriverError(CUresult::CUDA_ERROR_INVALID_CONTEXT))];
    ensure(expected.contains(&kept), || format!("a drop without a context: {kept:?}"))?;
    front_end::scoped(|| check(stream, &patterned(stream, seed + 1, BYTES)?, seed + 1))?;
    Ok(kept.is_err())
}

pub(crate) fn no_context() -> Outcome {
    let context = CudaContext::new(0)?;
    let mut report = Report::default();
    for (name, stream) in
        [("default_stream", context.default_stream()), ("per_thread_stream", context.per_thread_stream())]
    {
        let mut refused = 0;
        for round in 0..ROUNDS {
            refused += u64::from(drop_without_context(&context, &stream, round)?);
        }
        let is_plain = front_end::IS_SERVING || refused == u64::from(ROUNDS);
        ensure(is_plain, || format!("{refused} of {ROUNDS} drops were refused on {name}"))?;
        report = report.number(name, refused);
    }
    front_end::add_to(report)
}

/// cudarc's reaction if there is no driver, which is a panic of its own.
pub(crate) fn no_driver() -> Outcome {
    ensure(!driver::is_present(), || "there is a driver".into())?;
    std::panic::set_hook(Box::new(|_| ()));
    let panic = std::panic::catch_unwind(|| front_end::scoped(|| CudaContext::new(0).map(drop)));
    let panic = panic.err().ok_or("a context without a driver")?;
    let message = panic.downcast_ref::<String>().ok_or("a panic without a message")?;
    Ok(Report::default().text("message", message))
}
