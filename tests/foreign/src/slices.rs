//! Slices whose elements are known, so that memory that two have at once is found.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};

use crate::report::{Outcome, ensure};

/// Elements that no other seed and no other place has.
pub(crate) fn pattern(seed: u32, length: usize) -> Vec<u32> {
    (0..length as u32).map(|place| (seed << 20).wrapping_add(place) ^ 0x5EED_0000).collect()
}

/// A slice of such elements.
pub(crate) fn patterned(stream: &Arc<CudaStream>, seed: u32, length: usize) -> Outcome<CudaSlice<u32>> {
    Ok(stream.clone_htod(&pattern(seed, length))?)
}

/// Whether a slice has the elements of a seed once the stream comes to it.
pub(crate) fn check(stream: &Arc<CudaStream>, slice: &impl DevicePtr<u32>, seed: u32) -> Outcome<()> {
    let found = stream.clone_dtoh(slice)?;
    let expected = pattern(seed, found.len());
    let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    let message = |place: usize| format!("element {place} of seed {seed} is {:#x}", found[place]);
    wrong.map_or(Ok(()), |place| ensure(false, || message(place)))
}
