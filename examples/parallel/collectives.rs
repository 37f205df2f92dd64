//! The calls that ranks make together with arrays: reduce, gather and broadcast. One trait, for the host, for GPUs, and for a rank that is alone.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::compute::Matrix;

/// Calls on the arrays of one rank that all ranks make in the same order.
///
/// Each call is queued behind earlier uses of its array, on a communication stream or another thread, and may return before it is done. The
/// array is not used until [`ready`](Self::ready).
pub(crate) trait Collectives<D: Device> {
    /// Replaces `data` by its mean over all ranks.
    fn all_reduce(&self, data: &mut Matrix<D>) -> Result<()>;

    /// The same for this rank's part of `data`, which has equal parts for all ranks. The other parts are undefined after it.
    fn reduce_scatter(&self, data: &mut Matrix<D>) -> Result<()>;

    /// Fills the other parts of `data` from the ranks to which they belong.
    fn all_gather(&self, data: &mut Matrix<D>) -> Result<()>;

    /// Replaces `data` by that of rank 0.
    fn broadcast(&self, data: &mut Matrix<D>) -> Result<()>;

    /// Makes `data` ready for use, the array of the oldest call that is not ready. On the host this waits until the call is done. On a GPU,
    /// later work waits.
    ///
    /// # Errors
    /// The failure that ended the training.
    fn ready(&self, data: &mut Matrix<D>) -> Result<()>;

    /// Measures the calls from here on, or none of them. The host measures all.
    fn measure(&self, _is_on: bool) {}

    /// The time of the measured calls, all of which must be done.
    fn time(&self) -> Result<Time>;
}

/// The time of communication.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Time {
    /// Seconds in which calls ran, or waited for other ranks to take part.
    pub(crate) busy: f64,
    /// The part of them in which computation waited for a call.
    pub(crate) waited: f64,
}

/// A rank without others: its numbers are the mean, and there is nothing to wait for. In a dry run it stands for one of several ranks.
#[derive(Debug)]
pub(crate) struct Alone;

impl<D: Device> Collectives<D> for Alone {
    fn all_reduce(&self, _data: &mut Matrix<D>) -> Result<()> {
        Ok(())
    }

    fn reduce_scatter(&self, _data: &mut Matrix<D>) -> Result<()> {
        Ok(())
    }

    fn all_gather(&self, _data: &mut Matrix<D>) -> Result<()> {
        Ok(())
    }

    fn broadcast(&self, _data: &mut Matrix<D>) -> Result<()> {
        Ok(())
    }

    fn ready(&self, _data: &mut Matrix<D>) -> Result<()> {
        Ok(())
    }

    fn time(&self) -> Result<Time> {
        Ok(Time::default())
    }
}
