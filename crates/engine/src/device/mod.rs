//! What a machine offers: memory on a stream, and copies ordered by it. One file per kind of machine.
//!
//! Front ends have typed handles (`Host`, `Cuda`) around an erased [`Stream`]. The engine sees the stream alone. [`Backend`] is the
//! trait that a kind of machine implements.

#![allow(unsafe_code)]

mod backend;
mod event;
mod exit;
mod host;
mod mark;
mod memory;
mod meter;
pub(crate) mod process;
mod quota;
mod source;
mod span;
mod stream;
mod unknown;
mod virtual_device;
mod virtual_memory;

#[cfg(feature = "cuda")]
mod cuda;

pub(crate) use backend::ALIGNMENT;
pub use backend::Backend;
pub use backend::copies::Copies;
#[cfg(feature = "foreign")]
pub(crate) use cuda::disown;
#[cfg(all(feature = "cuda", feature = "tracing"))]
pub use cuda::nvtx::NvtxRange;
#[cfg(feature = "foreign")]
pub use cuda::{Borrowed, Handle};
#[cfg(feature = "cuda")]
pub use cuda::{EventHandle, EventRef, GpuStream, OwnEvent, Peer};
pub use event::Event;
pub use host::HostStream;
pub use mark::Mark;
pub use memory::Memory;
pub use meter::{MemoryUse, Meter, OrderUse};
pub use stream::Stream;
pub(crate) use stream::WeakStream;
pub use stream::lane::Lane;
pub use virtual_device::Virtual;
pub use virtual_memory::{Unfinished, VirtualMemory};

pub use exit::{exits_with_thread, process_exits};
pub(crate) use quota::softly;
pub(crate) use source::{Pages, Source};
pub use span::Span;
pub(crate) use unknown::{IsDone, UnknownWork};

// A stream has nothing that changes but through `&self` from any thread at any time, by atomics and behind locks that are
// taken after a panic as before it. So the devices around it are unwind safe too.

/// A device's handle may be used after a panic, and by other threads at any time.
impl std::panic::UnwindSafe for Stream {}

/// A device's handle may be used after a panic, and by other threads at any time.
impl std::panic::RefUnwindSafe for Stream {}
