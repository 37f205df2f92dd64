//! A call of somebody else's that ran out of memory, made again.

use super::ask::{Ask, Asked};
use super::climb::insist;
use crate::base::error::{Error, Result};
use crate::device::Stream;
use crate::range::DeviceRange;

/// The driver is asked, by a call of another crate's.
struct Retried<'a> {
    stream: &'a Stream,
    bytes: usize,
    succeeds: &'a dyn Fn() -> bool,
}

impl Ask for Retried<'_> {
    type Memory = ();

    fn ask(&self, _insists: bool) -> Result<()> {
        let short = || Error::out_of_memory("the driver's pool", self.bytes, "no memory is left");
        if (self.succeeds)() { Ok(()) } else { Err(short()) }
    }

    /// Free pages of the range are the driver's memory too.
    fn ask_for_free(&self) -> Result<Option<()>> {
        DeviceRange::of(self.stream).map_or(Ok(0), |range| range.give_back(self.bytes as u64))?;
        Ok(self.ask(false).ok())
    }
}

/// Makes a call for so many bytes, which found no memory, until it succeeds: each step of the reclaim gives memory back to the driver.
/// Returns whether it has succeeded.
pub fn retry_call(stream: &Stream, bytes: usize, succeeds: &dyn Fn() -> bool) -> bool {
    let asked = Asked { stream, bytes: bytes as u64, dims: &[bytes], holder: None };
    insist(asked, 0, &Retried { stream, bytes, succeeds }).is_ok()
}
