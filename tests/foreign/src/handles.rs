//! `other_stream` and `sync_pair`: memory that is freed on another stream than its own, and without any stream.

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, result};
use std::sync::Arc;

use crate::report::{Outcome, Report, ensure};
use crate::slices::{check, pattern, patterned};
use crate::{driver, front_end};

const ROUNDS: u32 = 50;
const LENGTH: usize = 5000;

/// Allocates on one stream, uses and frees on another, and has the first stream write the memory as soon as possible.
fn freed_elsewhere(here: &Arc<CudaStream>, there: &Arc<CudaStream>, round: u32) -> Outcome<()> {
    let address = patterned(here, round, LENGTH)?.leak();
    there.join(here)?;
    // SAFETY: the memory is that of the slice above, which is gone. `there` waits for the slice's work.
    let slice: CudaSlice<u32> = unsafe { there.upgrade_device_ptr(address, LENGTH) };
    driver::delay(there, 2)?;
    let copy = there.clone_dtod(&slice)?;
    drop(slice);
    let next = patterned(here, round + 1, LENGTH)?;
    check(there, &copy, round)?;
    check(here, &next, round + 1)
}

pub(crate) fn other_stream() -> Outcome {
    let context = CudaContext::new(0)?;
    let (here, there) = (context.new_stream()?, context.new_stream()?);
    for round in 0..ROUNDS {
        front_end::scoped(|| freed_elsewhere(&here, &there, round))?;
    }
    for round in 0..ROUNDS {
        front_end::scoped(|| freed_elsewhere(&context.default_stream(), &there, round))?;
    }
    context.check_err()?;
    front_end::add_to(Report::default().number("rounds", u64::from(2 * ROUNDS)))
}

/// An allocation and a free without a stream. Work of any stream may use the memory until it is freed.
fn pair(stream: &Arc<CudaStream>, round: u32) -> Outcome<()> {
    let (elements, mut found) = (pattern(round, LENGTH), vec![0; LENGTH]);
    let bytes = std::mem::size_of_val(&elements[..]);
    let copy = stream.alloc_zeros::<u32>(LENGTH)?;
    // SAFETY: the memory has room for the elements. It is freed once, after all work that uses it, since a free without a stream
    // waits for running work. The copy's memory belongs to the slice, which lives on.
    unsafe {
        let address = result::malloc_sync(bytes)?;
        result::memcpy_htod_sync(address, &elements)?;
        result::memcpy_dtoh_sync(&mut found, address)?;
        driver::delay(stream, 2)?;
        let to = { cudarc::driver::DevicePtr::device_ptr(&copy, stream).0 };
        result::memcpy_dtod_async(to, address, bytes, stream.cu_stream())?;
        result::free_sync(address)?;
        let next = result::malloc_sync(bytes)?;
        result::memcpy_htod_sync(next, &pattern(round + 1, LENGTH))?;
        result::free_sync(next)?;
    }
    ensure(found == elements, || format!("what was written without a stream in round {round}"))?;
    check(stream, &copy, round)
}

pub(crate) fn sync_pair() -> Outcome {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    for round in 0..ROUNDS {
        front_end::scoped(|| pair(&stream, round))?;
    }
    context.check_err()?;
    front_end::add_to(Report::default().number("rounds", u64::from(ROUNDS)))
}
