//! The trait of all device handles. Everything that a program does with one device as a whole is a method here.
#![allow(unsafe_code)]

use std::ptr::from_ref;
use std::time::Duration;

use gpucache_engine::Result;
use gpucache_engine::device::{Stream, Virtual};
use gpucache_engine::pressure::{Pressure, PressureHandler};

use super::counts::{MemoryUse, OrderUse};
use super::limit::IntoLimit;
use crate::stats::{self, DeviceStats};

/// A handle of a device and of one of its streams, which orders the arrays made through the handle. Cheap to clone.
///
/// Arrays made through handles of the same device and stream share cached memory, however many handles there are.
///
/// # Implementing it
/// A handle is a `#[repr(transparent)]` struct around its [`Stream`], so that an array can lend the handle. [`Host`](super::Host),
/// [`Virtual`] and `Cuda` are such handles. [`backend`](super::backend) has the traits that a new kind of device implements.
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
/// The handle is a `#[repr(transparent)]` struct around one [`Stream`]. [`stream_handle`](Device::stream_handle) always returns this
/// stream. [`from_stream_handle`](Device::from_stream_handle), if it is implemented, returns the handle around exactly the given stream,
/// because an array is freed and copied on the stream that it was allocated on. Nothing unsafe relies on the other methods, which have defaults that no implementation needs to replace.
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
    /// [`stream_handle`](Device::stream_handle) of another handle of this type returned the stream.
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
    /// A failure of the work, or a deferred error of an earlier drop.
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

    /// The bytes that this process reserves on the device through this crate, and the number of its requests to the device.
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
        MemoryUse::of(self.stream_handle().memory())
    }

    /// The number of calls to the device that order streams, so that memory of one stream can serve another one.
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
        OrderUse::of(self.stream_handle().memory())
    }

    /// The statistics of the device in this process: its memory, its range, its streams, how often it was short, and arrays that moved to
    /// the host. A call takes the lock of the device's range for a moment. It calls no driver, except to ask whether timed moves of placed arrays
    /// are done.
    ///
    /// ```
    /// use gpucache::{device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(1 << 20);
    /// assert!(device.zeros::<u8>(2 << 20).is_err());
    /// assert_eq!(device.stats().reclaim.failed, 1);
    /// println!("{}", device.stats());
    /// ```
    fn stats(&self) -> DeviceStats {
        stats::of_device(self.stream_handle().memory())
    }

    /// Sets the peak of the device ([`MemoryUse::peak_bytes`]) to the bytes that are reserved now.
    ///
    /// ```
    /// use gpucache::{device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(1 << 30);
    /// drop(device.zeros::<u8>(4 << 20)?);
    /// device.reset_peaks();
    /// drop(device.zeros::<u8>(1 << 20)?);
    /// assert_eq!(device.memory().peak_bytes, 1 << 20);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn reset_peaks(&self) {
        self.stream_handle().meter().reset_peak();
    }

    /// Limits how much memory of the device this process holds through this crate, in scopes and outside them.
    ///
    /// - A hard limit is never exceeded: the device counts as full at the limit. An allocation beyond it gets idle memory, or
    ///   fails with an error that names the limit ([`Error::shortage`](crate::Error::shortage)).
    /// - A soft limit refuses no allocation. An allocation beyond it gets idle memory, from the least recently used scope first.
    ///   If there is none, gpucache reserves more. The arena of a plan stays within the limit, or uses memory that is reserved
    ///   already. [`ReclaimStats::beyond_soft`](crate::stats::ReclaimStats::beyond_soft) counts the allocations for which
    ///   gpucache reserved more.
    ///
    /// A device can have one limit of each kind; [`Limit::NONE`](crate::Limit::NONE) ends both. Idle memory beyond a new limit goes
    /// back at once, and live arrays stay.
    ///
    /// `GPUCACHE_LIMIT=20GiB` in the environment sets the same limit on each device, without a change of code. The variable is
    /// read when the first handle of a device is made. An empty value sets no limit. With a value that is no limit, the first call
    /// returns an error.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) for a text that is no limit, and for a share of a device that does not report
    /// its size. Hosts on Linux and GPUs with virtual memory management report it. After an error the limit stays as it was.
    ///
    /// ```
    /// use gpucache::{Limit, cache_scope, device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(1 << 30);
    /// cache_scope!(warm_up, { device.zeros::<u8>(64 << 20)? });
    /// device.set_limit("16MiB")?;
    /// assert!(device.memory().bytes <= 16 << 20);
    /// assert!(device.zeros::<u8>(32 << 20).unwrap_err().is_out_of_memory());
    /// device.set_limit(Limit::NONE)?;
    /// assert!(device.zeros::<u8>(32 << 20).is_ok());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn set_limit(&self, limit: impl IntoLimit) -> Result<()> {
        self.stream_handle().memory().set_limit(limit.into_limit()?)
    }

    /// Limits how much idle memory scopes keep on the device once they are left.
    ///
    /// Without this limit, scopes keep the memory that they are likely to need again, and other libraries and processes cannot use
    /// it. Idle memory beyond the limit returns to the device whenever a thread leaves a scope. Free pages go first, and then the
    /// memory of lists and plans, so the next entries ask the device again. Pages that pending work uses stay until a scope is left
    /// after that work. If another library runs out of memory, call [`trim`](Device::trim) once and try again.
    ///
    /// # Errors
    /// As for [`set_limit`](Device::set_limit), and for a soft limit.
    ///
    /// ```
    /// use gpucache::{cache_scope, device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(1 << 30);
    /// device.set_idle_limit("4MiB")?;
    /// cache_scope!(step, {
    ///     let arrays: Vec<_> = (0..8).map(|_| device.zeros::<u8>(4 << 20)).collect::<gpucache::Result<_>>()?;
    ///     drop(arrays);
    /// });
    /// assert_eq!(device.memory().bytes, 4 << 20);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn set_idle_limit(&self, limit: impl IntoLimit) -> Result<()> {
        self.stream_handle().memory().set_idle_limit(limit.into_limit()?)
    }

    /// Limits the host memory of arrays that were [offloaded](crate::offload) from this device.
    ///
    /// The limit is hard. If the limit leaves no room for an array, the array stays on the device, and an allocation that needs its
    /// memory fails ([`is_out_of_memory`](crate::Error::is_out_of_memory)). Idle host memory beyond the limit goes back at once. Host
    /// memory is taken in chunks of at least 2 MiB. An array that was on the host keeps its place there, so it is copied again only
    /// if it was written. [`trim`](Device::trim) frees these places. [`set_limit`](Device::set_limit) and `GPUCACHE_LIMIT` limit the
    /// device's memory alone, and [`set_process_limit`](super::set_process_limit) counts this host memory too.
    ///
    /// # Errors
    /// As for [`set_limit`](Device::set_limit), and for a soft limit. A share is a share of the host's memory.
    ///
    /// ```
    /// use gpucache::{offload::{Placed, Placement}, prelude::*};
    ///
    /// let device = Host::new_stream()?;
    /// device.set_host_limit("64MiB")?;
    /// let (first, second) = (Placed::<u8, _>::zeros(&device, 48 << 20)?, Placed::<u8, _>::zeros(&device, 48 << 20)?);
    /// first.set_placement(Placement::Host)?;
    /// assert!(second.set_placement(Placement::Host).unwrap_err().is_out_of_memory());
    /// assert_eq!(device.stats().offload.resident_bytes, 48 << 20);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn set_host_limit(&self, limit: impl IntoLimit) -> Result<()> {
        self.stream_handle().memory().set_host_limit(limit.into_limit()?)
    }

    /// Sets how long an allocation that finds no memory waits for other threads to drop arrays or to leave scopes. The default
    /// is [`Duration::ZERO`]: it does not wait.
    ///
    /// An allocation waits once no idle memory serves it, before any handler of [`on_pressure`](Device::on_pressure) is called. It looks
    /// for memory at least every two milliseconds. If the other threads wait for this thread in turn, the allocation fails after the
    /// timeout. A request for more than the whole device, or beyond the limit of its scope, does not wait. Besides, an allocation waits up
    /// to ten seconds for work of the device if only that work keeps it from its memory.
    ///
    /// ```
    /// use std::time::Duration;
    /// use gpucache::{device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(8 << 20);
    /// device.set_allocation_timeout(Duration::from_secs(10));
    /// let held = device.zeros::<u8>(6 << 20)?;
    /// let other = std::thread::spawn(move || {
    ///     std::thread::sleep(Duration::from_millis(10)); // works on it
    ///     drop(held);
    /// });
    /// let array = device.zeros::<u8>(4 << 20)?;
    /// assert_eq!(device.stats().reclaim.failed, 0);
    /// # drop(array);
    /// # other.join().unwrap();
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn set_allocation_timeout(&self, timeout: Duration) {
        self.stream_handle().memory().set_allocation_timeout(timeout);
    }

    /// Gives free pages of the device back to its driver, and returns their bytes.
    ///
    /// The memory of dropped arrays stays with the device's range, for the next entry of any scope. This call returns it now, even if
    /// scopes will need it again. These stay:
    ///
    /// - idle blocks of `recycle = "keyed"`;
    /// - idle memory of scopes that another thread is inside;
    /// - usually the arena of a scope that this thread is inside.
    ///
    /// The call waits for work on the device for at most a quarter of a second. Memory that is still in use after that stays, so
    /// synchronize first to get all memory back. Host memory in which no array rests is freed too, but not counted.
    ///
    /// The next fallible call on this stream returns a failure of the device, or of work on it
    /// ([`is_deferred`](crate::Error::is_deferred)), as after a drop.
    ///
    /// ```
    /// use gpucache::{cache_scope, device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(1 << 30);
    /// cache_scope!(warm_up, { device.zeros::<u8>(4 << 20)? });
    /// assert_eq!(device.trim(), 4 << 20);
    /// assert_eq!(device.memory().bytes, 0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn trim(&self) -> u64 {
        let (bytes, failure) = self.stream_handle().memory().trim();
        failure.into_iter().for_each(|error| self.stream_handle().keep(error));
        bytes
    }

    /// Calls `handler` when an allocation on the device finds no memory although all idle memory went back. Handlers run on the
    /// allocating thread, which tries again after each handler.
    ///
    /// Handlers are the last reclaim step. After it, the allocation may wait up to ten seconds for work of the device, and then fails.
    ///
    /// Handlers are called in the order in which they were registered, without a lock held. A handler may drop arrays, invalidate
    /// scopes, write data elsewhere, or enter scopes and allocate; no handler is called for its own allocations. A panic in a handler
    /// is caught. The handler stays registered until the returned value is dropped. A call that another thread has decided on may
    /// still begin then. Another handler may drop it.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use gpucache::{device::Virtual, prelude::*, stats::ReclaimStep};
    ///
    /// let device = Virtual::new(8 << 20);
    /// let cache = Arc::new(Mutex::new(vec![device.zeros::<u8>(6 << 20)?])); // can be computed again
    /// let spare = cache.clone();
    /// let _handler = device.on_pressure(move |_| spare.lock().unwrap().clear());
    /// let array = device.zeros::<u8>(4 << 20)?;
    /// assert!(cache.lock().unwrap().is_empty());
    /// assert_eq!(device.stats().reclaim.step(ReclaimStep::Handlers).served, 1);
    /// # drop(array);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn on_pressure(&self, handler: impl Fn(&Pressure<'_>) + Send + Sync + 'static) -> PressureHandler {
        self.stream_handle().memory().on_pressure(handler)
    }
}

// SAFETY: a transparent struct around the `Stream` that it gives out.
#[diagnostic::do_not_recommend]
unsafe impl Device for Virtual {
    #[inline]
    fn stream_handle(&self) -> &Stream {
        Virtual::stream_handle(self)
    }
}
