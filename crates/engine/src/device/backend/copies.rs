//! A queue for copies between a device's memory and the host's, as a kind of machine provides it.

use std::sync::Arc;

use super::Backend;

/// A queue for copies. It consists of two backends, one for each side, that put their work on the same queue.
///
/// ```
/// use std::sync::Arc;
/// use gpucache::device::backend::Copies;
/// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
/// use plain::Plain; // as in the example of `Backend`
///
/// // All memory of this backend is the host's, and all its work is done at once.
/// let copies = Copies { device: Arc::new(Plain), host: Arc::new(Plain) };
/// ```
#[derive(Clone, Debug)]
pub struct Copies {
    /// Works on the device's memory, and copies between the two sides.
    pub device: Arc<dyn Backend>,
    /// Allocates and frees memory of the host.
    pub host: Arc<dyn Backend>,
}
