//! The checks of a collective's arguments, and their order with other streams.
//!
//! Invariant: an operation that is made here stays within the arrays that the guards of its uses borrow. The communicator's stream is ordered behind earlier
//! uses of these arrays, and the arrays know the stream as a user.

use std::ffi::c_int;

use cudarc::driver::{CudaContext, CudaStream, DeviceSlice, sys};

use super::buffer::{Readable, Uses, Writable};
use super::communicator::Communicator;
use super::operation::Operation;
use gpucache_engine::{Error, Result};

impl Communicator {
    pub(super) fn raw_stream(&self) -> &CudaStream {
        self.stream().stream()
    }

    /// A rank as NCCL counts it.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) if there is no such rank.
    pub(super) fn checked_rank(&self, rank: usize) -> Result<c_int> {
        let number = c_int::try_from(rank).ok().filter(|_| rank < self.ranks);
        number.ok_or_else(|| {
            Error::unavailable(
                format_args!("rank {rank}"),
                format_args!("the communicator has {} ranks", self.ranks),
                "name a rank below that, counted from 0",
            )
        })
    }

    /// Refuses what is not on the communicator's GPU.
    pub(super) fn check_gpu(&self, what: &str, context: &CudaContext, remedy: &'static str) -> Result<()> {
        let (own, other) = (self.raw_stream().context().ordinal(), context.ordinal());
        match own == other {
            true => Ok(()),
            false => Err(Error::unavailable(
                what,
                format_args!("it is on cuda:{other}, and the communicator is of cuda:{own}"),
                remedy,
            )),
        }
    }
}

/// The parts of an array that an operation in place reads and writes: each one is the whole array.
pub(super) const WHOLE: (usize, usize) = (0, 0);

/// An operation that reads one array and writes another one.
pub(super) fn both<'a, T>(
    ranks: &'a Communicator,
    operation: Operation,
    from: &'a impl Readable<T>,
    to: &'a mut impl Writable<T>,
) -> Result<(Operation, Uses<'a>)> {
    on_its_gpu(ranks, from)?;
    on_its_gpu(ranks, &*to)?;
    let (from, read) = from.device_ptr(ranks.raw_stream());
    let (to, written, write) = to.queue_write(ranks.raw_stream());
    Ok((Operation { from, to, ..operation }, Uses { guards: [Some(read), Some(written)], write }))
}

/// An operation that only reads.
pub(super) fn read<'a, T>(
    ranks: &'a Communicator,
    operation: Operation,
    from: &'a impl Readable<T>,
) -> Result<(Operation, Uses<'a>)> {
    on_its_gpu(ranks, from)?;
    let (from, read) = from.device_ptr(ranks.raw_stream());
    let uses = Uses { guards: [Some(read), None], write: None };
    Ok((Operation { from, ..operation }, uses))
}

/// An operation that reads and writes parts of one array.
pub(super) fn written<'a, T>(
    ranks: &'a Communicator,
    operation: Operation,
    data: &'a mut impl Writable<T>,
    (reads, writes): (usize, usize),
) -> Result<(Operation, Uses<'a>)> {
    on_its_gpu(ranks, &*data)?;
    let part = data.len() / ranks.ranks * size_of::<T>();
    let (data, written, write) = data.queue_write(ranks.raw_stream());
    let at = |number: usize| data + (number * part) as u64;
    Ok((Operation { from: at(reads), to: at(writes), ..operation }, Uses { guards: [Some(written), None], write }))
}

/// Refuses an array of another GPU than the communicator's.
fn on_its_gpu<T>(ranks: &Communicator, data: &impl DeviceSlice<T>) -> Result<()> {
    let remedy = "copy it by `Array::to_device`, or use the communicator of its GPU";
    ranks.check_gpu("an array in a collective", data.stream().context(), remedy)?;
    // cudarc's question below would return, and lose, a failure that cudarc kept. The launch finds it on the stream.
    ranks.stream().0.take_kept(data.stream().context());
    ranks.stream().0.take_kept(ranks.raw_stream().context());
    // The collective would run now, and in no launch of the graph.
    if is_captured(data.stream()) && !is_captured(ranks.raw_stream()) {
        return Err(Error::unavailable(
            "an array in a collective",
            "its stream is captured into a graph, and the communicator's stream is not",
            "connect the ranks on the captured stream, or call collectives outside of captured work",
        ));
    }
    Ok(())
}

/// Whether a graph is captured on the stream, if the driver says so.
fn is_captured(stream: &CudaStream) -> bool {
    let none = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    stream.capture_status().is_ok_and(|status| status != none)
}

/// Refuses lengths of which the first is not `times` the second.
pub(super) fn same_lengths(
    operation: &str,
    (one, len): (&str, usize),
    (other, unit): (&str, usize),
    times: usize,
) -> Result<()> {
    match unit.checked_mul(times) == Some(len) {
        true => Ok(()),
        false if times == 1 => Err(Error::invalid_shape(format!(
            "{operation} needs arrays of one length: {one} has {len} elements and {other} has {unit}"
        ))),
        false => Err(Error::invalid_shape(format!(
            "{operation} with {times} ranks needs {one} {times} times as long as {other}: {one} has {len} elements and {other} \
             has {unit}"
        ))),
    }
}

/// The length of each rank's part of an array.
pub(super) fn part_of(operation: &str, len: usize, ranks: usize) -> Result<usize> {
    match len.is_multiple_of(ranks) {
        true => Ok(len / ranks),
        false => Err(Error::invalid_shape(format!(
            "{operation} cannot divide {len} elements among {ranks} ranks: make the length a multiple of the ranks"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::{part_of, same_lengths};

    #[test]
    fn lengths_that_do_not_fit_are_refused_with_both_of_them() {
        assert!(same_lengths("all_gather", ("the output", 12), ("the input", 3), 4).is_ok());
        let error = same_lengths("all_gather", ("the output", 11), ("the input", 3), 4).unwrap_err();
        let message = error.to_string();
        assert!(error.is_invalid_shape() && message.contains("11") && message.contains("4 ranks"), "{message}");
        assert!(same_lengths("reduce_scatter", ("the input", 0), ("the output", usize::MAX), 2).is_err());
        assert_eq!(part_of("all_gather_in_place", 12, 4).unwrap(), 3);
        assert!(part_of("all_gather_in_place", 13, 4).unwrap_err().is_invalid_shape());
    }
}
