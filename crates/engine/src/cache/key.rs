//! The key under which an idle block is kept: dtype, shape, and the stream, which implies the device.

use std::any::TypeId;
use std::hash::{Hash, Hasher};

use crate::record::{Dims, Request};

/// What must be equal for a block to be handed out again.
#[derive(Clone, Debug)]
pub(super) struct Key {
    dtype: TypeId,
    stream: u64,
    shape: Dims,
}

impl Key {
    pub(super) fn new(request: &Request<'_>, stream: u64) -> Key {
        Key { dtype: request.dtype, stream, shape: Dims::new(request.dims) }
    }

    pub(super) fn stream(&self) -> u64 {
        self.stream
    }

    pub(super) fn shape(&self) -> &Dims {
        &self.shape
    }

    #[inline]
    pub(super) fn matches(&self, request: &Request<'_>, stream: u64) -> bool {
        self.stream == stream && self.dtype == request.dtype && same_dims(request.dims, self.shape.dims())
    }

    pub(super) fn hash(&self, state: impl Hasher) -> u64 {
        hash_parts(self.dtype, self.stream, self.shape.dims(), state)
    }
}

/// The hash of the key that a request has on a stream.
#[inline]
pub(super) fn hash_of(request: &Request<'_>, stream: u64, state: impl Hasher) -> u64 {
    hash_parts(request.dtype, stream, request.dims, state)
}

#[inline]
fn hash_parts(dtype: TypeId, stream: u64, dims: &[usize], mut state: impl Hasher) -> u64 {
    dtype.hash(&mut state);
    state.write_u64(stream);
    dims.iter().for_each(|&dim| state.write_usize(dim));
    state.finish()
}

/// Whether two shapes are equal. They are short: a call to compare memory costs more than to look at each dimension.
#[inline]
fn same_dims(one: &[usize], other: &[usize]) -> bool {
    // Not the slices' own comparison, which is that call.
    one.len() == other.len() && (0..one.len()).all(|place| one[place] == other[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: 'static>(dims: &[usize]) -> Request<'_> {
        Request {
            dtype: TypeId::of::<T>(),
            type_name: "",
            dims,
            bytes: dims.iter().product::<usize>() * size_of::<T>(),
            site: None,
        }
    }

    #[test]
    fn a_key_matches_its_own_request_only() {
        let request = of::<f32>(&[2, 3]);
        let key = Key::new(&request, 7);
        assert!(key.matches(&request, 7) && !key.matches(&request, 8));
        assert!(!key.matches(&of::<f32>(&[3, 2]), 7));
        assert!(!key.matches(&of::<i32>(&[2, 3]), 7));
    }
}
