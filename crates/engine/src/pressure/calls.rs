//! Calls of other libraries that take memory of a device. They find no memory as allocations do, and take the same reclaim steps.

use super::request::Asked;
use super::serve::insist;
use crate::base::error::{Error, Result};
use crate::device::Stream;

impl Stream {
    /// Makes a call by which another library takes `bytes` bytes of the device for an array of this shape. The bytes count for the device
    /// and its limits, and the reclaim steps are taken if the call finds no memory. [`uncount`](Stream::uncount) ends that.
    ///
    /// # Errors
    /// That of the call, and [`is_out_of_memory`](crate::Error::is_out_of_memory) beyond a limit.
    #[doc(hidden)]
    pub fn count_call<M>(&self, bytes: u64, dims: &[usize], call: impl Fn() -> Result<M>) -> Result<M> {
        let asked = Asked { stream: self, bytes, dims, holder: None };
        insist(asked, 0, &|| self.meter().allocate(bytes, &call))
    }

    /// Notes that the bytes of a counted call were given back.
    #[doc(hidden)]
    pub fn uncount(&self, bytes: u64) {
        self.meter().freed(bytes);
    }

    /// Repeats a call of another crate for `bytes` bytes, which found no memory, until the call succeeds. Each reclaim step gives
    /// memory back to the driver. Returns whether the call succeeded.
    #[doc(hidden)]
    pub fn retry_call(&self, bytes: usize, succeeds: &dyn Fn() -> bool) -> bool {
        let short = || Error::out_of_memory("the driver's pool", bytes, "no memory is left");
        let asked = Asked { stream: self, bytes: bytes as u64, dims: &[bytes], holder: None };
        insist(asked, 0, &|| if succeeds() { Ok(()) } else { Err(short()) }).is_ok()
    }
}
