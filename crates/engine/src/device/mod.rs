//! What a machine offers: memory on a stream, and copies ordered by it. One file per kind of machine.
//!
//! A [`Device`] is a typed handle (`Host`, `Cuda`) around an erased [`Stream`]; everything below `array` sees the
//! stream alone. [`Backend`] is what a kind of machine implements.

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

/// A handle of a device and of the stream by which its arrays are ordered. Cheap to clone.
///
/// Arrays made through handles of the same device and stream share cached memory, however many handles there are.
///
/// # Implementing it
/// A handle is a `#[repr(transparent)]` struct around its [`Stream`], so that an array can lend it out again.
/// `gpucache` brings `Host` and `Cuda`; tests and other front ends add their own, over a [`Backend`].
///
/// The methods of a [`Backend`], an [`Event`], a [`Mark`] and a [`VirtualMemory`] are called while this crate holds locks, and so are
/// the destructors of events and marks. They must not call this crate, and must not wait for a thread that calls it. The destructor of
/// a backend runs without a lock held.
///
/// ```
/// use gpucache::prelude::*;
///
/// fn ones<D: Device>(device: &D) -> gpucache::Result<Array<f32, D>> {
///     Array::full(device, [2, 3], 1.0) // on whatever device
/// }
///
/// assert_eq!(ones(&Host::new())?.to_vec()?, [1.0; 6]);
/// # Ok::<(), gpucache::Error>(())
/// ```
///
/// # Safety
/// The handle is a `#[repr(transparent)]` struct around the [`Stream`] that [`stream_handle`](Device::stream_handle)
/// gives out, always the same one, and [`from_stream_handle`](Device::from_stream_handle), if it is implemented at all,
/// gives the handle around just the stream it is given: an array is freed and copied on the stream that it was
/// allocated on.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device: borrow one, made by `Host::new()`, `Cuda::new(0)?` or `Cuda::with_stream(stream)?`"
)]
pub unsafe trait Device: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// The stream behind this handle.
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
    /// Another handle of this same type gave the stream out.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let host = Host::new();
    /// // SAFETY: a `Host` gave the stream out.
    /// let same = unsafe { Host::from_stream_handle(host.stream_handle()) };
    /// assert_eq!(same.zeros::<u8>(4)?.to_vec()?, [0; 4]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[inline]
    unsafe fn from_stream_handle(stream: &Stream) -> &Self {
        // SAFETY: whoever implements this trait promises that `Self` is a transparent struct around a `Stream`, so that
        // both have one layout, and the address of the one is that of the other. The caller's stream is one of such a
        // handle, so that it is a value of `Self` too; it is borrowed for as long as the answer is.
        unsafe { &*from_ref(stream).cast() }
    }

    /// Waits until all work of this handle's stream is done.
    ///
    /// # Errors
    /// What the work met, or a failure that an earlier drop kept.
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

    /// What this process holds from the device through this crate, in bytes, and how often it asked.
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

    /// How often the device was called to order streams whose memory changed hands.
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

// A stream has nothing that changes but through `&self` from any thread at any time, by atomics and behind locks that are
// taken after a panic as before it. So the devices around it are unwind safe too.

/// A device's handle may be used after a panic, and by other threads at any time.
impl std::panic::UnwindSafe for Stream {}

/// A device's handle may be used after a panic, and by other threads at any time.
impl std::panic::RefUnwindSafe for Stream {}
