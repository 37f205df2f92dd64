//! `oom` and `info`: requests fail only if there is no memory, and idle memory counts as free.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError, sys::CUresult};

use crate::front_end;
use crate::report::{Outcome, Report, ensure};

const ROUNDS: usize = 3;

fn allocate(stream: &Arc<CudaStream>, bytes: usize) -> Result<CudaSlice<u8>, DriverError> {
    stream.alloc_zeros(bytes)
}

/// Whether a request is refused, and only because there is no memory.
fn is_short(stream: &Arc<CudaStream>, bytes: usize) -> Outcome<()> {
    let refused = allocate(stream, bytes).map(drop);
    let expected = Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    ensure(refused == expected, || format!("{bytes} bytes: {refused:?}"))
}

/// A smaller request succeeds after a refused one, and a larger one succeeds if idle memory suffices.
fn run_out(stream: &Arc<CudaStream>, total: usize) -> Outcome<()> {
    let half = allocate(stream, total / 2)?;
    is_short(stream, total / 8 * 5)?;
    is_short(stream, total + 1)?;
    let less = allocate(stream, total / 8)?;
    drop((half, less));
    drop(allocate(stream, total / 4 * 3)?);
    let small: Vec<_> = (0..6).map(|_| allocate(stream, total / 8)).collect::<Result<_, _>>()?;
    is_short(stream, total / 2)?;
    drop(small);
    drop(allocate(stream, total / 4 * 3)?);
    Ok(())
}

pub(crate) fn oom() -> Outcome {
    let context = CudaContext::new(0)?;
    let (_, total) = context.mem_get_info()?;
    for stream in [context.default_stream(), context.new_stream()?] {
        for _ in 0..ROUNDS {
            front_end::scoped(|| run_out(&stream, total))?;
        }
        run_out(&stream, total)?;
    }
    context.check_err()?;
    front_end::add_to(Report::default().number("total", total as u64))
}

pub(crate) fn info() -> Outcome {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let (before, total) = context.mem_get_info()?;
    let bytes = total / 4;
    for _ in 0..ROUNDS {
        let alive = front_end::scoped(|| {
            let slices = [allocate(&stream, bytes / 2)?, allocate(&stream, bytes / 2)?];
            stream.synchronize()?;
            let (alive, _) = context.mem_get_info()?;
            drop(slices);
            Ok::<_, DriverError>(alive)
        })?;
        ensure(alive + bytes <= before, || format!("{alive} bytes free of {before}, with {bytes} in use"))?;
        stream.synchronize()?;
        let (idle, _) = context.mem_get_info()?;
        ensure(idle >= before, || format!("{idle} bytes free of {before}, with none in use"))?;
    }
    front_end::add_to(Report::default().number("free", before as u64))
}
