//! Buffers, layouts, and the errors of both.

use std::fmt;

/// A buffer: `size` bytes that live in the half-open time interval `lower..upper`.
///
/// A buffer with a size of 0, or with `lower >= upper`, occupies nothing. It gets offset 0 and overlaps with no other buffer.
///
/// ```
/// use gpucache_plan::{Buffer, lower_bound};
/// let buffer = Buffer { lower: 0, upper: 2, size: 1024 }; // lives at the times 0 and 1
/// assert_eq!(lower_bound(&[buffer]), 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// The first time at which the buffer lives.
    pub lower: u32,
    /// The first time at which the buffer lives no more.
    pub upper: u32,
    /// Bytes.
    pub size: u64,
}

impl Buffer {
    /// Whether it has bytes and a lifetime.
    ///
    /// ```
    /// use gpucache_plan::Buffer;
    /// assert!(Buffer { lower: 0, upper: 2, size: 1024 }.occupies());
    /// assert!(!Buffer { lower: 2, upper: 2, size: 1024 }.occupies());
    /// ```
    pub fn occupies(&self) -> bool {
        self.size > 0 && self.lower < self.upper
    }
}

/// An offset for each buffer, and the highest end.
///
/// ```
/// use gpucache_plan::{Buffer, layout};
/// let buffers = [Buffer { lower: 0, upper: 1, size: 3 }, Buffer { lower: 1, upper: 2, size: 4 }];
/// let found = layout(&buffers)?;
/// assert_eq!((found.offsets, found.height), (vec![0, 0], 4)); // never alive at once
/// # Ok::<(), gpucache_plan::TooLarge>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Layout {
    /// Offset of each buffer in bytes, in the order of the buffers.
    pub offsets: Vec<u64>,
    /// Bytes of the block that holds them all: the largest `offset + size`.
    pub height: u64,
}

/// The sizes sum to more than 2^62, or there are at least 2^32 buffers. Offsets might not fit 64 bits.
///
/// ```
/// use gpucache_plan::{Buffer, TooLarge, layout};
/// let buffers = [Buffer { lower: 0, upper: 1, size: u64::MAX }];
/// let error: TooLarge = layout(&buffers).unwrap_err();
/// assert_eq!(error.buffers, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLarge {
    /// Number of buffers given.
    pub buffers: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the sizes of {} buffers sum to more than 2^62 bytes: lay out fewer at once", self.buffers)
    }
}

impl std::error::Error for TooLarge {}

/// Why a layout is not valid.
///
/// ```
/// use gpucache_plan::{Buffer, Layout, LayoutError, check};
/// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
/// let layout = Layout { offsets: vec![0, 2], height: 6 }; // the first ends at 3
/// assert_eq!(check(&buffers, &layout), Err(LayoutError::Overlap { first: 0, second: 1 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// Two buffers that are alive at once share an address.
    Overlap {
        /// The buffer with the lower index.
        first: usize,
        /// The other buffer.
        second: usize,
    },
    /// The number of offsets differs from the number of buffers.
    Length {
        /// Number of buffers.
        buffers: usize,
        /// Number of offsets.
        offsets: usize,
    },
    /// The end of a buffer does not fit 64 bits.
    PastEnd {
        /// The buffer's index.
        buffer: usize,
    },
    /// The stated height is not the highest end.
    Height {
        /// The stated height.
        stated: u64,
        /// The highest end.
        found: u64,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Overlap { first, second } => {
                write!(f, "buffers {first} and {second} are alive at once and share an address")
            }
            Self::Length { buffers, offsets } => write!(f, "{buffers} buffers have {offsets} offsets: give one each"),
            Self::PastEnd { buffer } => write!(f, "buffer {buffer} ends past 2^64 bytes: lower its offset"),
            Self::Height { stated, found } => {
                write!(f, "the height is stated as {stated}, but the highest end is {found}")
            }
        }
    }
}

impl std::error::Error for LayoutError {}
