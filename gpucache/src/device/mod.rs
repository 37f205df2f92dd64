//! What a machine offers: memory on a stream, and copies ordered by it.
//!
//! A [`Device`] is a typed handle ([`Host`], `Cuda`, [`Virtual`]) around an erased [`Stream`]. [`Backend`] is what a kind of machine
//! implements.

#[cfg(feature = "cuda")]
mod cuda;
mod host;
pub(crate) mod limits;

#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use gpucache_engine::device::{
    Backend, Copies, Device, Event, Mark, Memory, MemoryUse, OrderUse, Stream, Unfinished, Virtual, VirtualMemory,
};
pub use host::Host;
