//! The engine's request for a number of bytes.

use std::any::TypeId;

use gpucache_engine::record::Request;

/// The dtype of all memory here.
struct Bytes;

pub(crate) fn request(dims: &[usize; 1]) -> Request<'_> {
    Request { dtype: TypeId::of::<Bytes>(), type_name: "bytes", dims, bytes: dims[0], site: None }
}
