//! Handles of the host's streams.
#![allow(unsafe_code)]

use gpucache_engine::Result;
use gpucache_engine::device::{HostStream, Stream};

use super::Device;

/// The machine's own memory: the device for tests, and for programs on a machine without a GPU.
///
/// ```
/// use gpucache::prelude::*;
///
/// let mut array = Array::full(&Host::new(), [2, 3], 1.5f32)?;
/// array[0] = 4.0;
/// assert_eq!(array.iter().sum::<f32>(), 11.5);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Default)]
#[repr(transparent)]
pub struct Host(pub(crate) HostStream);

impl Host {
    /// The default stream of the host: a call does its work before it returns. All handles from this function mean this one
    /// stream; making a handle costs nothing.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let (host, same) = (Host::new(), Host::new());
    /// let array = host.zeros::<u32>(100)?;
    /// assert!(same.memory().bytes >= 400); // of one stream
    /// # drop(array);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn new() -> Host {
        Host::default()
    }

    /// A new stream of the host. A thread of its own does its work later and in order, as on a stream of a GPU. Work of
    /// [`launch`](Host::launch), writes and copies of arrays are queued. A read of an array on the calling thread first
    /// waits for the stream.
    ///
    /// These streams share one memory, separate from that of the default stream: no stream ever waits on a caller's thread
    /// for memory that another one freed. A panic in queued work is caught, and the stream's next fallible call returns it
    /// ([`is_panic`](crate::Error::is_panic)). The stream goes on. The contents of the arrays that this work should have
    /// written are lost: see [`launch`](Host::launch). Once no handle, array or free memory needs the stream any more, its
    /// thread finishes what is queued and ends. A process that exits does not wait for it.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if the system cannot start a thread.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let stream = Host::new_stream()?;
    /// let mut squares = Array::<u64, _>::zeros(&stream, 100)?;
    /// stream.launch(&mut squares, |squares| (0..).zip(squares).for_each(|(i, square)| *square = i * i))?;
    /// assert_eq!(squares[9], 81); // waits for the stream
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn new_stream() -> Result<Host> {
        let stream = HostStream::start()?;
        stream.stream_handle().memory().drop_ended_streams();
        Ok(Host(stream))
    }

    /// Makes later work of this stream wait for the work that is on `other` now. On the default stream, the calling thread
    /// waits at once, because it does that stream's work itself.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if the call on the default stream comes from work on `other`, which
    /// would wait for itself.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let (first, second) = (Host::new_stream()?, Host::new_stream()?);
    /// first.launch((), |()| println!("first"))?;
    /// second.join(&first)?;
    /// second.launch((), |()| println!("second"))?;
    /// second.synchronize()?;
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn join(&self, other: &Host) -> Result<()> {
        self.0.join(&other.0)
    }
}

// SAFETY: a transparent struct around a `HostStream`, which is one around the `Stream` that it gives out.
#[diagnostic::do_not_recommend]
unsafe impl Device for Host {
    #[inline]
    fn stream_handle(&self) -> &Stream {
        self.0.stream_handle()
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
