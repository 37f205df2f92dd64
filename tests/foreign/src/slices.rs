//! Slices with known elements, so that memory with two owners is found.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};

use crate::report::{Outcome, ensure};

/// Elements that differ from those of any other seed and place.
pub(crate) fn pattern(seed: u32, length: usize) -> Vec<u32> {
    (0..length as u32).map(|place| (seed << 20).wrapping_add(place) ^ 0x5EED_0000).collect()
}

/// A slice with such elements.
pub(crate) fn patterned(stream: &Arc<CudaStream>, seed: u32, length: usize) -> Outcome<CudaSlice<u32>> {
    Ok(stream.clone_htod(&pattern(seed, length))?)
}

/// Checks that a slice has the elements of a seed once the stream reaches this point.
pub(crate) fn check(stream: &Arc<CudaStream>, slice: &impl DevicePtr<u32>, seed: u32) -> Outcome<()> {
    let found = stream.clone_dtoh(slice)?;
    let expected = pattern(seed, found.len());
    let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    let message = |place: usize| format!("element {place} of seed {seed} is {:#x}", found[place]);
    wrong.map_or(Ok(()), |place| ensure(false, || message(place)))
}
