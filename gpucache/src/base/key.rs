//! The key under which a block is cached: dtype, shape, and the stream (which implies the device).
//!
//! A [`Shape`] keeps up to [`INLINE`] dimensions in place, and more in memory of its own, which it keeps for the next long
//! one: a place that has had a shape as long before takes any other on without an allocation.

use std::any::TypeId;
use std::hash::{Hash, Hasher};

use super::error::{Error, Result};

/// Dimensions kept in place: as many as any array of a model has; a record with them is four lines of the processor's cache.
const INLINE: usize = 8;

/// What a block is asked for: a dtype, the dimensions, and the bytes they come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) dtype: TypeId,
    pub(crate) dims: &'a [usize],
    pub(crate) len: usize,
    pub(crate) bytes: usize,
}

/// The dimensions of an array.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Shape {
    rank: usize,
    dims: [usize; INLINE],
    /// All dimensions of a shape that has no room in place; room for the next such one until then.
    long: Box<[usize]>,
}

/// What must be equal for a block to be handed out again.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    dtype: TypeId,
    stream: u64,
    shape: Shape,
}

impl<'a> Request<'a> {
    /// A request for `dims` elements of `T`; an error if their bytes do not fit an `isize`.
    pub(crate) fn of<T: 'static>(dims: &'a [usize]) -> Result<Request<'a>> {
        let len = match len_of::<T>(dims) {
            Some(len) => len,
            None => require_empty::<T>(dims).map(|()| 0)?,
        };
        Ok(Request { dtype: TypeId::of::<T>(), dims, len, bytes: len * size_of::<T>() })
    }
}

/// How many elements of `T` these dimensions are, if the product overflows nowhere and their bytes fit an `isize`.
#[inline(always)]
pub(crate) fn len_of<T>(dims: &[usize]) -> Option<usize> {
    let mut len = 1usize;
    for &dim in dims {
        len = len.checked_mul(dim)?;
    }
    let most = (isize::MAX as usize).checked_div(size_of::<T>()).unwrap_or(usize::MAX);
    (len <= most).then_some(len)
}

/// A zero anywhere makes an array empty, whatever the other dimensions multiply to.
#[cold]
#[inline(never)]
fn require_empty<T>(dims: &[usize]) -> Result<()> {
    if dims.contains(&0) {
        return Ok(());
    }
    let dtype = std::any::type_name::<T>();
    Err(Error::invalid_shape(format!(
        "the shape {dims:?} of {dtype} overflows the address space: check the dimensions"
    )))
}

impl Shape {
    pub(crate) fn new(dims: &[usize]) -> Shape {
        let mut shape = Shape { rank: 0, dims: [0; INLINE], long: Box::default() };
        shape.assign(dims);
        shape
    }

    /// Becomes another shape; allocates if it is longer than any that it was before.
    #[inline]
    pub(crate) fn assign(&mut self, dims: &[usize]) {
        if !self.set(dims) {
            self.assign_long(dims);
        }
    }

    #[cold]
    fn assign_long(&mut self, dims: &[usize]) {
        if self.long.len() < dims.len() {
            self.long = vec![0; dims.len().next_power_of_two()].into();
        }
        self.long[..dims.len()].copy_from_slice(dims);
        self.rank = dims.len();
    }

    /// Becomes another shape, if there is room for it in place.
    #[inline(always)]
    pub(crate) fn set(&mut self, dims: &[usize]) -> bool {
        let has_room = Shape::has_room(dims);
        if has_room {
            self.rank = dims.len();
            std::iter::zip(&mut self.dims, dims).for_each(|(place, dim)| *place = *dim);
        }
        has_room
    }

    /// Whether a shape of these dimensions needs no memory of its own.
    #[inline(always)]
    pub(crate) fn has_room(dims: &[usize]) -> bool {
        dims.len() <= INLINE
    }

    #[inline]
    pub(crate) fn dims(&self) -> &[usize] {
        match self.rank {
            0..=INLINE => &self.dims[..self.rank],
            rank => &self.long[..rank],
        }
    }
}

/// Whether two shapes are equal. They are short: a call to compare memory costs more than to look at each dimension.
#[inline]
pub(crate) fn same_dims(one: &[usize], other: &[usize]) -> bool {
    // Not the slices' own comparison, which is that call.
    one.len() == other.len() && (0..one.len()).all(|place| one[place] == other[place])
}

impl Key {
    pub(crate) fn new(request: &Request<'_>, stream: u64) -> Key {
        Key { dtype: request.dtype, stream, shape: Shape::new(request.dims) }
    }

    pub(crate) fn stream(&self) -> u64 {
        self.stream
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    #[inline]
    pub(crate) fn matches(&self, request: &Request<'_>, stream: u64) -> bool {
        self.stream == stream && self.dtype == request.dtype && same_dims(request.dims, self.shape.dims())
    }

    pub(crate) fn hash(&self, state: impl Hasher) -> u64 {
        hash_parts(self.dtype, self.stream, self.shape.dims(), state)
    }
}

impl Request<'_> {
    #[inline]
    pub(crate) fn hash(&self, stream: u64, state: impl Hasher) -> u64 {
        hash_parts(self.dtype, stream, self.dims, state)
    }
}

#[inline]
fn hash_parts(dtype: TypeId, stream: u64, dims: &[usize], mut state: impl Hasher) -> u64 {
    dtype.hash(&mut state);
    state.write_u64(stream);
    dims.iter().for_each(|&dim| state.write_usize(dim));
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_any_rank_keep_their_dims() {
        let (mut shape, mut set) = (Shape::new(&[1; 9]), Shape::new(&[]));
        for rank in (0..40).chain((0..40).rev()) {
            let dims: Vec<usize> = (1..=rank).collect();
            assert_eq!(Shape::new(&dims).dims(), dims);
            shape.assign(&dims);
            assert_eq!(shape.dims(), dims, "after another rank");
            assert_eq!(set.set(&dims), Shape::has_room(&dims));
            assert_eq!(set.dims().len(), rank.min(INLINE));
        }
    }

    #[test]
    fn an_empty_array_has_no_bytes_however_large_its_other_dimensions() {
        let request = Request::of::<u64>(&[usize::MAX, 0, usize::MAX]).unwrap();
        assert_eq!((request.len, request.bytes), (0, 0));
    }

    #[test]
    fn overflow_is_an_error() {
        assert!(Request::of::<u8>(&[usize::MAX]).unwrap_err().is_invalid_shape());
        assert!(Request::of::<u8>(&[1 << 40, 1 << 40]).unwrap_err().is_invalid_shape());
        assert!(Request::of::<()>(&[usize::MAX]).is_ok());
    }

    #[test]
    fn a_key_matches_its_own_request_only() {
        let request = Request::of::<f32>(&[2, 3]).unwrap();
        let key = Key::new(&request, 7);
        assert!(key.matches(&request, 7) && !key.matches(&request, 8));
        assert!(!key.matches(&Request::of::<f32>(&[3, 2]).unwrap(), 7));
        assert!(!key.matches(&Request::of::<i32>(&[2, 3]).unwrap(), 7));
    }
}
