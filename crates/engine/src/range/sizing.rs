//! How much to map at a time. Long handles need few calls of the driver, and short ones reserve little memory that is not used.
//!
//! In a span, a step maps at least a fixed share of the high-water mark. To map exactly the missing bytes would reserve least, but a load
//! of small blocks would then cost a call for every granule. With a share, the number of calls is logarithmic in the size reached, and at
//! most that share is reserved in excess. A large step is divided into several handles, because a handle that contains a block cannot be
//! returned.
//!
//! Measured on traces of seven training runs with granules of 2 MiB: steps of 1/128 instead of none cost 0.0005 of the live peak on
//! average. The next table compares lengths of handles. "After a trim" is the reserved memory ÷ the live memory when each training step is
//! followed by a trim, on average over a run. "Calls" are all calls of the growth. Both columns range from the run with the least to the
//! run with the most:
//!
//! | a handle is | after a trim | calls |
//! |---|---|---|
//! | one growth, whatever its length | 1.30 to 21.7 | 18 to 138 |
//! | 8 granules or 1/128, whichever is more | 1.22 to 1.70 | 35 to 358 |
//! | one granule or 1/1024, whichever is more | 1.03 to 1.11 | 207 to 3415 |
//! | one granule | 1.03 to 1.11 | 207 to 6705 |
//!
//! With short handles, a range that grows to 20 GB by blocks of 100 MB would get thousands of them, since the mark is small while it grows.
//! A long handle costs memory if a small block lies in it and keeps the rest from moving. That is rare if all large blocks have similar
//! sizes. So a block is mapped in one handle under these conditions:
//!
//! - It has at least 40 granules.
//! - It has at most 3/2 of the mean of all large blocks. Blocks of less than 1/4 granule do not count in the mean, as they touch few pages.
//! - 128 granules were in use. Before that, a handle that cannot be returned is a large share.
//!
//! Each such handle has at most 1/16 of the mark, and at most 1/1024 of the device's memory. So small blocks keep no more than that when
//! memory runs short. The next table shows the memory that scopes with plans reserve ÷ the live peak in later passes over the traces, on
//! average and at most, and the number of handles for 200 blocks of 100 MB:
//!
//! | a handle is one granule or | mean | most | handles |
//! |---|---|---|---|
//! | 1/1024 | 1.007 | 1.011 | 3771 |
//! | 1/512 | 1.008 | 1.011 | 2225 |
//! | 1/256 | 1.013 | 1.024 | 1255 |
//! | 1/1024, or half the block up to 1/128 | 1.017 | 1.039 | 820 |
//! | 1/1024, or half the block up to 1/32 | 1.035 | 1.068 | 482 |
//! | 1/1024, or half the mean block up to 1/16, whatever the block | 1.028 | 1.111 | 418 |
//! | 1/1024, or half of a block of similar size to the others up to 1/16 | 1.007 | 1.011 | 418 |
//! | 1/1024, or a very large block of similar size to the others up to 1/16, as here | 1.007 | 1.011 | 293 to 307 |

/// The share of the high-water mark in a step of a span. It reserves at most 0.8% in excess, and 0.05% on average on the traces.
const STEP_SHARE: u64 = 128;
/// The share of the high-water mark in a handle. With 1/128, a trim after a step left up to 1.70 of the live memory reserved; with 1/1024,
/// up to 1.11.
const HANDLE_SHARE: u64 = 1024;
/// The granules of the smallest block that is one handle. Smaller blocks need few calls in any case, and in a small range a handle that
/// cannot be returned is a large share. With 32, the scope of a test with 80 MB could not use its plan.
const LEAST_BLOCK: u64 = 40;
/// The granules of the lowest high-water mark at which a block is one handle. Below it, a handle that one small block keeps mapped is a
/// large share of the range.
const LEAST_MARK: u64 = 128;
/// The largest share of the high-water mark in a handle of a very large block. So the memory that a small block keeps mapped stays small.
/// Scopes with plans reserve 1.007 times the live peak of the traces with such handles and without, and 200 blocks of 100 MB take some 300
/// handles instead of 3771.
const LONG_HANDLE_SHARE: u64 = 16;
/// The share of the high-water mark in a chunk. Ranges of chunks then reserve 1.28 times the live peak of the traces on average; with 1/32,
/// 1.34 times.
const CHUNK_SHARE: u64 = 8;

/// The fewest bytes that a step in a span maps, if the high-water mark is `high_water` bytes with the present request included.
///
/// It is a multiple of `granule` and at most 1/128 of `high_water`; 0 if that is less than a granule.
pub(super) fn step(high_water: u64, granule: u64) -> u64 {
    floor(high_water / STEP_SHARE, granule)
}

/// The bytes of each handle when a step in a span is divided, a multiple of `granule`. The last handle also takes the remainder. The pages
/// are for a block of `bytes`, `mean` is the mean of the large blocks, this one included, and `capacity` the memory of the device; 0 if
/// unknown.
pub(super) fn handle(bytes: u64, mean: u64, high_water: u64, capacity: u64, granule: u64) -> u64 {
    let is_usual =
        bytes >= LEAST_BLOCK * granule && high_water >= LEAST_MARK * granule && bytes <= mean.saturating_add(mean / 2);
    let part = if is_usual { bytes.min(mean) } else { 0 };
    let part = part.min(high_water / LONG_HANDLE_SHARE).min(capacity / HANDLE_SHARE);
    floor(part.max(high_water / HANDLE_SHARE), granule).max(granule)
}

/// The fewest bytes of the next chunk, a multiple of `granule`.
///
/// A chunk is never extended later, and no block spans two chunks. So requests share chunks of 1/8 of `high_water`. On the same traces,
/// ranges of such chunks reserve 1.28 times the live peak on average. With 1/32 they reserve 1.34 times, and with a chunk for each request
/// 1.34 times too.
pub(super) fn chunk(high_water: u64, granule: u64) -> u64 {
    floor(high_water / CHUNK_SHARE, granule)
}

fn floor(bytes: u64, granule: u64) -> u64 {
    bytes / granule * granule
}
