//! How much to map at a time: few calls of the driver and few handles on the one side, little memory held for nothing
//! on the other.
//!
//! In a span, a step is at least a fixed share of the high-water mark. Mapping exactly what is missing would hold
//! least, but a load of small blocks would then pay a call for every granule; with a share the calls are logarithmic in
//! the size reached, at no more slack than that share. A large step is cut into several handles, because a handle with
//! one block in it cannot be given back.
//!
//! Measured on traces of seven training runs, granules of 2 MiB: steps of 1/128 instead of none cost 0.0005 of the live
//! peak on average. The length of handles, by what a trim after each training step leaves reserved over the live bytes,
//! on average over a run, and by the calls of all growth, from the run with the least to that with the most:
//!
//! | a handle is | after a trim | calls |
//! |---|---|---|
//! | one growth, whatever its length | 1.30 to 21.7 | 18 to 138 |
//! | 8 granules or 1/128, whichever is more | 1.22 to 1.70 | 35 to 358 |
//! | one granule or 1/1024, whichever is more | 1.03 to 1.11 | 207 to 3415 |
//! | one granule | 1.03 to 1.11 | 207 to 6705 |
//!
//! A range that grows to 20 GB by blocks of 100 MB would get thousands of handles in that way, since the mark is small
//! while it grows. A handle costs when a small block comes to lie in it and keeps the rest from moving; where all large
//! blocks are of like size, that is rare. So a block of 40 granules and more, and of at most 3/2 of the mean of all large
//! ones, is mapped in one handle once 128 granules were in use (before, a handle that is pinned is much), each at most 1/16 of the mark, and at most 1/1024 of the device's memory, so that what small blocks pin comes
//! to no more when memory runs short. Blocks of less than 1/4 granule count for nothing in the mean, as they touch few
//! pages. By what scopes with plans hold over the live peak in later passes over the traces, on average and at most, and
//! by the handles of 200 blocks of 100 MB:
//!
//! | a handle is one granule or | mean | most | handles |
//! |---|---|---|---|
//! | 1/1024 | 1.007 | 1.011 | 3771 |
//! | 1/512 | 1.008 | 1.011 | 2225 |
//! | 1/256 | 1.013 | 1.024 | 1255 |
//! | 1/1024, or half the block up to 1/128 | 1.017 | 1.039 | 820 |
//! | 1/1024, or half the block up to 1/32 | 1.035 | 1.068 | 482 |
//! | 1/1024, or half the mean block up to 1/16, whatever the block | 1.028 | 1.111 | 418 |
//! | 1/1024, or half of a block among its like up to 1/16 | 1.007 | 1.011 | 418 |
//! | 1/1024, or a very large block among its like up to 1/16, as here | 1.007 | 1.011 | 293 to 307 |

/// The share of the high-water mark in a step of a span: a slack of 0.8% at most, 0.05% on average on the traces.
const STEP_SHARE: u64 = 128;
/// The share of the high-water mark in a handle: with 1/128 a trim after a step left up to 1.70 of what was live, with 1/1024
/// up to 1.11.
const HANDLE_SHARE: u64 = 1024;
/// Granules of the smallest block that is one handle: smaller ones need few calls in any case, and in a small range what a
/// handle pins is much. With 32 a test's scope of 80 MB went without its plan.
const LEAST_BLOCK: u64 = 40;
/// Granules of the least high-water mark at which a block is one handle: below it a handle that one small block pins is a large
/// share of the range.
const LEAST_MARK: u64 = 128;
/// The share of the high-water mark that a handle of a very large block is at most, so that what a small block pins stays small.
/// Scopes with plans hold 1.007 times the live peak of the traces with it as without, and 200 blocks of 100 MB take some 300
/// handles instead of 3771.
const LONG_HANDLE_SHARE: u64 = 16;
/// The share of the high-water mark in a chunk: ranges of chunks then hold 1.28 times the live peak of the traces on average, and
/// 1.34 times with 1/32.
const CHUNK_SHARE: u64 = 8;

/// Bytes that a step in a span maps at least, when `high_water` bytes were alive at most, the request at hand included.
///
/// A multiple of `granule`, and at most 1/128 of `high_water`; 0 as long as that is less than a granule.
pub(super) fn step(high_water: u64, granule: u64) -> u64 {
    floor(high_water / STEP_SHARE, granule)
}

/// What the length of handles depends on, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The block for which pages are missing.
    pub(super) bytes: u64,
    /// The mean of the large blocks, this one included.
    pub(super) mean: u64,
    pub(super) high_water: u64,
    /// What the device has; 0 if that is not known.
    pub(super) capacity: u64,
}

/// Bytes of each handle when a step in a span is cut, a multiple of `granule`. The last one takes the remainder too.
pub(super) fn handle(sizes: Sizes, granule: u64) -> u64 {
    let Sizes { bytes, mean, high_water, capacity } = sizes;
    let is_usual =
        bytes >= LEAST_BLOCK * granule && high_water >= LEAST_MARK * granule && bytes <= mean.saturating_add(mean / 2);
    let part = if is_usual { bytes.min(mean) } else { 0 };
    let part = part.min(high_water / LONG_HANDLE_SHARE).min(capacity / HANDLE_SHARE);
    floor(part.max(high_water / HANDLE_SHARE), granule).max(granule)
}

/// Bytes of the next chunk for a request of `bytes`, in multiples of `granule`; `None` if that overflows.
///
/// A chunk is never extended later, and no block spans two, so that requests share chunks of 1/8 of `high_water`. On
/// the same traces this holds 1.28 times the live peak on average, 1/32 holds 1.34, and a chunk for each request 1.34.
pub(super) fn chunk(bytes: u64, high_water: u64, granule: u64) -> Option<u64> {
    Some(bytes.checked_next_multiple_of(granule)?.max(floor(high_water / CHUNK_SHARE, granule)))
}

fn floor(bytes: u64, granule: u64) -> u64 {
    bytes / granule * granule
}
