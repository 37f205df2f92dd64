//! Devices: memory on a stream, and copies that a stream orders.
//!
//! A [`Device`] is a typed handle (`Host`, `Cuda`) around an untyped [`Stream`]. The folders above see only the stream. A kind of machine
//! implements [`Backend`]: `host`, `cuda` and `virtual_device` are the three kinds of this crate.
//!
//! A request for memory takes this way: `Stream::allocate` or `Source::map` asks the `Meter` of the device. The meter checks the limits in
//! `quota` and `process`, then calls the `Backend`, or the `VirtualMemory` for pages. Memory that goes back takes the same way, and the
//! meter counts it out.

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

use std::ptr::from_ref;

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

use crate::base::error::Result;

/// A handle of a device and of the stream that orders the work on its arrays. A clone is cheap.
///
/// Arrays that are made through handles of the same device and stream share cached memory, even if there are several handles.
///
/// # Implementing it
/// A handle is a `#[repr(transparent)]` struct around its [`Stream`], so an array can lend the handle from its stream. `gpucache` provides
/// `Host` and `Cuda`. Tests and other front ends add their own handles over a [`Backend`].
///
/// The methods of a [`Backend`], an [`Event`], a [`Mark`] and a [`VirtualMemory`] are called while this crate holds locks, and so are the
/// destructors of events and marks. They must not call this crate, and must not wait for a thread that calls it. The destructor of a
/// backend runs while no lock is held.
///
/// ```
/// use gpucache::prelude::*;
///
/// fn ones<D: Device>(device: &D) -> gpucache::Result<Array<f32, D>> {
///     Array::full(device, [2, 3], 1.0) // on any device
/// }
///
/// assert_eq!(ones(&Host::new())?.to_vec()?, [1.0; 6]);
/// # Ok::<(), gpucache::Error>(())
/// ```
///
/// # Safety
/// The handle is a `#[repr(transparent)]` struct around a [`Stream`]. [`stream_handle`](Device::stream_handle) returns this stream, always
/// the same one. [`from_stream_handle`](Device::from_stream_handle), if it is implemented, returns the handle around exactly the stream
/// that it gets. The crate relies on this: it frees and copies an array on the stream that allocated the array.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device: borrow one, made by `Host::new()`, `Cuda::new(0)?` or `Cuda::with_stream(stream)?`"
)]
pub unsafe trait Device: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// The stream of this handle.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let (host, other) = (Host::new(), Host::new());
    /// assert_eq!(format!("{:?}", host.stream_handle()), format!("{:?}", other.stream_handle())); // one stream
    /// ```
    fn stream_handle(&self) -> &Stream;

    /// The handle around `stream`.
    ///
    /// # Safety
    /// Another handle of this same type returned the stream.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let host = Host::new();
    /// // SAFETY: a `Host` returned this stream.
    /// let same = unsafe { Host::from_stream_handle(host.stream_handle()) };
    /// assert_eq!(same.zeros::<u8>(4)?.to_vec()?, [0; 4]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[inline]
    unsafe fn from_stream_handle(stream: &Stream) -> &Self {
        // SAFETY: the implementer of this trait promises that `Self` is a transparent struct around a `Stream`. So both have the same
        // layout and the same address. The caller promises that the stream came from a handle of this type, so it is a value of `Self` too.
        // The result is borrowed for no longer than the stream.
        unsafe { &*from_ref(stream).cast() }
    }

    /// Waits until all work of this handle's stream is done.
    ///
    /// # Errors
    /// An error of that work, or a failure that an earlier drop kept.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let stream = Host::new_stream()?;
    /// stream.launch((), |()| println!("done later"))?;
    /// stream.synchronize()?;
    /// println!("and this after it");
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn synchronize(&self) -> Result<()> {
        self.stream_handle().check()?;
        self.stream_handle().synchronize()
    }

    /// The memory that this process reserves from the device through this crate, in bytes, and the number of its requests to the device.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let host = Host::new();
    /// let before = host.memory();
    /// let array = Array::<f32, _>::zeros(&host, 1024)?;
    /// assert!(host.memory().bytes >= before.bytes + 4096);
    /// # drop(array);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn memory(&self) -> MemoryUse {
        self.stream_handle().meter().read()
    }

    /// How many calls of the device served to order streams when memory moved from one stream to another.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*};
    ///
    /// let stream = Host::new_stream()?;
    /// let before = stream.ordering();
    /// for _ in 0..10 {
    ///     cache_scope!(alone, { Array::<f32, _>::zeros(&stream, 1024)? });
    /// }
    /// assert_eq!(stream.ordering(), before); // one stream needs no event, no query and no wait
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn ordering(&self) -> OrderUse {
        self.stream_handle().meter().read_order()
    }
}

// Threads change a stream only through `&self`, by atomics and under locks, and use these locks after a panic as before. So streams are
// unwind safe, and so are the devices around them.

/// A device's handle may be used after a panic, and by other threads at any time.
impl std::panic::UnwindSafe for Stream {}

/// A device's handle may be used after a panic, and by other threads at any time.
impl std::panic::RefUnwindSafe for Stream {}
