//! The key under which a block is cached: dtype, shape, and the stream (which implies the device).
//!
//! A [`Shape`] keeps up to [`INLINE`] dimensions in place and shares longer ones, so that copying a shape never allocates.

use std::any::TypeId;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::error::{Error, Result};

/// Dimensions kept in place.
const INLINE: usize = 6;

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
        let bytes_of = |len: usize| len.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok());
        let len = dims.iter().try_fold(1usize, |len, &dim| len.checked_mul(dim));
        // A zero anywhere makes the array empty, whatever the other dimensions multiply to.
        let len = if dims.contains(&0) { Some(0) } else { len };
        match len.and_then(|len| Some((len, bytes_of(len)?))) {
            Some((len, bytes)) => Ok(Request { dtype: TypeId::of::<T>(), dims, len, bytes }),
            None => Err(Error::invalid_shape(format!(
                "the shape {dims:?} of {} overflows the address space: check the dimensions",
                std::any::type_name::<T>()
            ))),
        }
    }
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

    #[inline]
    pub(crate) fn dims(&self) -> &[usize] {
        match self {
            Shape::Inline { rank, dims } => &dims[..usize::from(*rank).min(INLINE)],
            Shape::Shared(dims) => dims,
        }
    }
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
        self.stream == stream && self.dtype == request.dtype && self.shape.dims() == request.dims
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
