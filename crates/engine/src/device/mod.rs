//! Devices: memory on a stream, and copies that a stream orders.
//!
//! Front ends have typed handles (`Host`, `Cuda`) around an untyped [`Stream`]. The folders above see only the stream. A kind of machine
//! implements [`Backend`]: `host`, `cuda` and `virtual_device` are the three kinds of this crate.
//!
//! A request for memory takes this way: `Stream::allocate` or `Source::map` asks the `Meter` of the device. The meter checks the limits in
//! `quota` and `process`, then calls the `Backend`, or the `VirtualMemory` for pages. Memory that goes back takes the same way, and the
//! meter counts it out.

#![allow(unsafe_code)]

mod backend;
mod event;
mod exit;
mod graph;
mod host;
mod kind;
mod machine;
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
mod yielding;

#[cfg(feature = "cuda")]
mod cuda;

pub use backend::Backend;
pub use backend::copies::Copies;
#[cfg(all(feature = "cuda", feature = "tracing"))]
pub use cuda::nvtx::NvtxRange;
#[cfg(feature = "cuda")]
pub use cuda::{GpuStream, Handle, Peer};
#[cfg(feature = "cuda")]
pub(crate) use cuda::{GraphEnd, disown};
pub use event::Event;
pub(crate) use graph::is_one_queue;
pub use graph::{Capture, Captured, LaunchableGraph, Word};
pub use host::{HostStream, host_vec};
pub use kind::DeviceKind;
pub use mark::Mark;
pub use memory::Memory;
#[doc(hidden)]
pub use meter::Meter;
pub use stream::Stream;
pub(crate) use stream::capture::relaxed;
pub use stream::copy_stream::CopyStream;
pub(crate) use stream::{User, WeakStream};
pub use virtual_device::Virtual;
pub use virtual_memory::{Unfinished, VirtualMemory};

#[doc(hidden)]
pub use exit::{call_at_exit, exits_with_thread, process_exits};
pub(crate) use quota::softly;
pub(crate) use source::{Pages, Source};
pub use span::Span;
pub(crate) use unknown::{IsDone, UnknownWork};

/// Every block's address is a multiple of this. It is CUDA's alignment, on which kernels with vector loads rely.
pub(crate) const ALIGNMENT: u64 = 256;

// Threads change a stream only through `&self`, by atomics and under locks, and use these locks after a panic as before. So streams are
// unwind safe, and so are the devices around them.

/// A device's handle may be used after a panic, and by other threads at any time.
impl std::panic::UnwindSafe for Stream {}

/// A device's handle may be used after a panic, and by other threads at any time.
impl std::panic::RefUnwindSafe for Stream {}
