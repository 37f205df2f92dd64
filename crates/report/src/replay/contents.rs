//! Checks whether arrays keep their contents. A replay writes words into each new array, at both ends and evenly between, and compares
//! them before the array goes. If two arrays share memory, one of them has lost its words.
//!
//! A word depends on the allocation and on its place, and no word lies across two places.

use std::ops::Range;

use gpucache::device::Virtual;
use gpucache::prelude::*;

use crate::error::{Error, Result};

const WORD: usize = size_of::<u64>();

/// A device whose arrays can be written and read in small pieces. A replay needs that to check the contents of arrays.
///
/// ```
/// use gpucache::prelude::*;
/// use gpucache_report::replay::Contents;
///
/// let mut array = Host::new().zeros::<u8>(100)?;
/// Host::put(&mut array, 8..16, &[7; 8])?;
/// let mut word = [0; 8];
/// Host::get(&array, 8..16, &mut word)?;
/// assert_eq!(word, [7; 8]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Contents: Device {
    /// How many words of an array are checked; 0 for a device without memory.
    const WORDS: usize;

    /// Writes `word` to the bytes at `place`, which has the same length.
    ///
    /// # Errors
    /// Errors of the device, and a place outside the array.
    fn put(array: &mut Array<u8, Self>, place: Range<usize>, word: &[u8]) -> Result<()>;

    /// Reads the bytes at `place` to `word`, which has the same length.
    ///
    /// # Errors
    /// Errors of the device, and a place outside the array.
    fn get(array: &Array<u8, Self>, place: Range<usize>, word: &mut [u8]) -> Result<()>;
}

/// The words in the arrays of a pass.
#[derive(Debug)]
pub(super) struct Marks {
    written: u64,
    /// The allocation that each slot holds.
    of_slots: Vec<u64>,
}

impl Marks {
    pub(super) fn new(slots: usize) -> Self {
        Self { written: 0, of_slots: vec![0; slots] }
    }

    /// Marks a new allocation.
    pub(super) fn write<D: Contents>(&mut self, slot: u32, array: &mut Array<u8, D>) -> Result<()> {
        self.written += 1;
        self.of_slots[slot as usize] = self.written;
        for place in places(array.len(), D::WORDS) {
            let word = word(self.written, place.start);
            D::put(array, place.clone(), &word[..place.len()])?;
        }
        Ok(())
    }

    /// # Errors
    /// A word of the array has changed.
    pub(super) fn check<D: Contents>(&self, slot: u32, array: &Array<u8, D>) -> Result<()> {
        let allocation = self.of_slots[slot as usize];
        for place in places(array.len(), D::WORDS) {
            let (word, mut found) = (word(allocation, place.start), [0; WORD]);
            D::get(array, place.clone(), &mut found[..place.len()])?;
            if word[..place.len()] != found[..place.len()] {
                let bytes = array.len();
                return Err(Error::Overwritten(format!(
                    "allocation {allocation} of {bytes} bytes did not keep what was written at byte {}: its memory was \
                     given to somebody else as well",
                    place.start
                )));
            }
        }
        Ok(())
    }
}

/// Where the words of an array of `bytes` bytes lie: at both ends, and evenly between. The last one may be cut short.
fn places(bytes: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let words = bytes.div_ceil(WORD);
    let between = words.min(most).saturating_sub(1);
    let stride = words.saturating_sub(1) / between.max(1);
    let last = (words.min(most) > 0).then(|| words - 1);
    (0..between).map(move |index| index * stride).chain(last).map(move |index| {
        let start = index * WORD;
        start..bytes.min(start + WORD)
    })
}

fn outside() -> Error {
    Error::Overwritten("a word lies outside its array".to_owned())
}

/// Mixes both numbers into all bits (the finalizer of SplitMix64).
fn word(allocation: u64, start: usize) -> [u8; WORD] {
    let mixed = allocation.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(start as u64);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).to_le_bytes()
}

impl Contents for Virtual {
    const WORDS: usize = 0;

    fn put(_array: &mut Array<u8, Self>, _place: Range<usize>, _word: &[u8]) -> Result<()> {
        Ok(())
    }

    fn get(_array: &Array<u8, Self>, _place: Range<usize>, _word: &mut [u8]) -> Result<()> {
        Ok(())
    }
}

impl Contents for Host {
    const WORDS: usize = 64;

    fn put(array: &mut Array<u8, Self>, place: Range<usize>, word: &[u8]) -> Result<()> {
        array.get_mut(place).ok_or_else(outside)?.copy_from_slice(word);
        Ok(())
    }

    fn get(array: &Array<u8, Self>, place: Range<usize>, word: &mut [u8]) -> Result<()> {
        word.copy_from_slice(array.get(place).ok_or_else(outside)?);
        Ok(())
    }
}

/// The array's stream orders the copies after the earlier work on the memory, and before the later work.
#[cfg(feature = "cuda")]
impl Contents for Cuda {
    const WORDS: usize = 3;

    fn put(array: &mut Array<u8, Self>, place: Range<usize>, word: &[u8]) -> Result<()> {
        let stream = array.device().stream().clone();
        let mut view = array.try_slice_mut(place).ok_or_else(outside)?;
        Ok(stream.memcpy_htod(word, &mut view).map_err(gpucache::Error::from)?)
    }

    fn get(array: &Array<u8, Self>, place: Range<usize>, word: &mut [u8]) -> Result<()> {
        let view = array.try_slice(place).ok_or_else(outside)?;
        Ok(array.device().stream().memcpy_dtoh(&view, word).map_err(gpucache::Error::from)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn array(bytes: usize) -> Array<u8, Host> {
        Array::zeros(&Host::new(), bytes).unwrap()
    }

    #[test]
    fn words_lie_at_both_ends_and_evenly_between() {
        let places = |bytes, most| places(bytes, most).map(|place| (place.start, place.end)).collect::<Vec<_>>();
        assert_eq!(places(0, 64), []);
        assert_eq!(places(1 << 20, 0), []);
        assert_eq!(places(3, 64), [(0, 3)]);
        assert_eq!(places(20, 64), [(0, 8), (8, 16), (16, 20)]);
        assert_eq!(places(1 << 20, 3), [(0, 8), (524_280, 524_288), (1_048_568, 1_048_576)]);
        for bytes in 1..5000 {
            let places = places(bytes, 64);
            assert_eq!(places.len(), bytes.div_ceil(WORD).min(64));
            assert_eq!((places[0].0, places[places.len() - 1].1), (0, bytes));
            assert!(places.is_sorted_by(|one, next| one.1 <= next.0), "{bytes} bytes");
        }
    }

    #[test]
    fn marks_are_found_until_something_is_written_over_them() {
        for bytes in [0, 1, 7, 8, 100, 512, 4096, 100_000] {
            let mut marks = Marks::new(2);
            let (mut one, mut other) = (array(bytes), array(bytes));
            marks.write(0, &mut one).unwrap();
            marks.write(1, &mut other).unwrap();
            marks.check(0, &one).unwrap();
            marks.check(1, &other).unwrap();
            for byte in [0, bytes.saturating_sub(1)] {
                let Some(&kept) = one.get(byte) else { continue };
                one[byte] = !kept;
                let error = marks.check(0, &one).unwrap_err().to_string();
                assert!(error.contains("allocation 1 of"), "{error}");
                one[byte] = kept;
            }
        }
    }

    #[test]
    fn another_allocations_marks_are_not_taken_for_its_own() {
        let mut marks = Marks::new(2);
        let mut shared = array(1000);
        marks.write(0, &mut shared).unwrap();
        marks.write(1, &mut shared).unwrap();
        marks.check(1, &shared).unwrap();
        assert!(marks.check(0, &shared).is_err());
    }
}
