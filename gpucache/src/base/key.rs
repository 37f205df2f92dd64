//! The key under which a block is cached: dtype, shape, and the stream (which implies the device).
//!
//! A [`Shape`] keeps up to [`INLINE`] dimensions in place and shares longer ones, so that copying a shape never allocates.

use std::any::TypeId;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::error::{Error, Result};

/// Dimensions kept in place.
const INLINE: usize = 6;

/// How large an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// In elements.
    pub(crate) len: usize,
    pub(crate) bytes: usize,
}

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
pub(crate) enum Shape {
    Inline { rank: u8, dims: [usize; INLINE] },
    Shared(Arc<[usize]>),
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
        Ok(Request::new::<T>(dims, Extent::of::<T>(dims)?))
    }

    /// A request for `dims` elements of `T`, which have this extent.
    #[inline]
    pub(crate) fn new<T: 'static>(dims: &'a [usize], extent: Extent) -> Request<'a> {
        Request { dtype: TypeId::of::<T>(), dims, len: extent.len, bytes: extent.bytes }
    }
}

impl Extent {
    /// Of `dims` elements of `T`; an error if their bytes do not fit an `isize`.
    #[inline(always)]
    pub(crate) fn of<T>(dims: &[usize]) -> Result<Extent> {
        let (mut len, mut overflows) = (1usize, false);
        for &dim in dims {
            let (product, is_over) = len.overflowing_mul(dim);
            (len, overflows) = (product, overflows | is_over);
        }
        let (mut bytes, is_over) = len.overflowing_mul(size_of::<T>());
        if overflows || is_over || bytes > isize::MAX as usize {
            require_empty::<T>(dims)?;
            (len, bytes) = (0, 0);
        }
        Ok(Extent { len, bytes })
    }
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
        let mut inline = [0; INLINE];
        match inline.get_mut(..dims.len()) {
            Some(place) => {
                place.copy_from_slice(dims);
                Shape::Inline { rank: dims.len() as u8, dims: inline }
            }
            None => Shape::Shared(dims.into()),
        }
    }

    /// Becomes another shape, if there is room for it in place.
    #[inline]
    pub(crate) fn set(&mut self, dims: &[usize]) -> bool {
        if let Shape::Inline { rank, dims: place } = self
            && let Some(place) = place.get_mut(..dims.len())
        {
            *rank = dims.len() as u8;
            std::iter::zip(place, dims).for_each(|(place, dim)| *place = *dim);
            return true;
        }
        self.set_otherwise(dims)
    }

    #[cold]
    fn set_otherwise(&mut self, dims: &[usize]) -> bool {
        let has_room = dims.len() <= INLINE;
        if has_room {
            *self = Shape::new(dims);
        }
        has_room
    }

    #[inline]
    pub(crate) fn dims(&self) -> &[usize] {
        match self {
            Shape::Inline { rank, dims } => &dims[..usize::from(*rank).min(INLINE)],
            Shape::Shared(dims) => dims,
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
        for rank in 0..10 {
            let dims: Vec<usize> = (1..=rank).collect();
            assert_eq!(Shape::new(&dims).dims(), dims);
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
