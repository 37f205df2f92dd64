//! Arrays whose elements are all alike. Test programs are not optimized, so an iterator takes nanoseconds for each element. A comparison
//! or a copy of slices takes a hundredth of that.

/// Elements of a block that is copied.
const BLOCK: usize = 256;

/// Whether all elements have this value.
pub fn are_all<T: Copy + PartialEq>(values: &[T], value: T) -> bool {
    values.first().is_none_or(|&first| first == value && values[1..] == values[..values.len() - 1])
}

/// Gives all elements this value.
pub fn fill<T: Copy>(values: &mut [T], value: T) {
    let block = [value; BLOCK];
    values.chunks_mut(BLOCK).for_each(|values| values.copy_from_slice(&block[..values.len()]));
}

/// So many elements of this value.
pub fn all<T: Copy>(value: T, len: usize) -> Vec<T> {
    let mut values = [value; BLOCK].repeat(len.div_ceil(BLOCK));
    values.truncate(len);
    values
}
