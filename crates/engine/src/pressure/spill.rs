//! Arrays that are in use and may leave the device all the same: whoever has such is asked before an allocation fails.

use crate::base::error::Result;
use crate::base::sync::OnceLock;

/// Has arrays of the device with this id leave, so that so many bytes are free. Returns the bytes; if there are none, the failure of the
/// device that kept an array from leaving.
type Spill = fn(u64, u64) -> Result<u64>;

static SPILL: OnceLock<Spill> = OnceLock::new();

/// Somebody has such arrays.
pub fn on_spill(spill: Spill) {
    SPILL.get_or_init(|| spill);
}

/// Has arrays of a device leave, so that so many bytes are free. Returns the bytes.
///
/// # Errors
/// A failure of the device that kept an array from leaving, where none left.
pub(super) fn spill(device: u64, bytes: u64) -> Result<u64> {
    SPILL.get().map_or(Ok(0), |spill| spill(device, bytes))
}
