//! Handles of CUDA streams.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::CudaStream;
use gpucache_engine::Result;
use gpucache_engine::device::{GpuStream, Stream};

use super::Device;

/// A handle of a CUDA stream of one GPU. The stream orders the uses of arrays that are made through the handle.
///
/// ```no_run
/// use gpucache::prelude::*;
///
/// let gpu = Cuda::new(0)?;
/// let array = Array::from_slice(&gpu, 3, &[1.0f32, 2.0, 3.0])?;
/// assert_eq!(array.to_vec()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Cuda(pub(crate) GpuStream);

impl Cuda {
    /// The default stream of GPU number `ordinal`, counted from 0.
    ///
    /// Handles of one GPU share one `CudaContext`. This call looks the context up under a lock, so make the handle once and
    /// lend it.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) where there is no CUDA driver or no such GPU; otherwise an error of the
    /// driver.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// match Cuda::new(0) {
    ///     Ok(gpu) => println!("{gpu:?}"),
    ///     Err(error) if error.is_unavailable() => println!("no GPU: {error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn new(ordinal: usize) -> Result<Cuda> {
        GpuStream::default_of(ordinal).map(Cuda)
    }

    /// A handle of `stream`, which it keeps alive. Handles of one stream share cached memory.
    ///
    /// The per-thread default stream differs from thread to thread: its handle means the stream of the thread that uses the
    /// handle. An array is ordered by the stream of the thread that made the array. The streams of other threads wait for it like
    /// any other stream.
    ///
    /// # Errors
    /// An error of the driver.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let context = gpucache::cudarc::driver::CudaContext::new(0)?;
    /// let gpu = Cuda::with_stream(context.new_stream()?)?;
    /// let array = gpu.zeros::<f32>([2, 3])?; // on that stream
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn with_stream(stream: Arc<CudaStream>) -> Result<Cuda> {
        let stream = GpuStream::of(stream)?;
        stream.stream_handle().memory().drop_ended_streams();
        Ok(Cuda(stream))
    }

    /// The CUDA stream behind this handle.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let context = gpu.stream().context(); // cudarc's, to load modules
    /// println!("{}", context.name()?);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[inline]
    pub fn stream(&self) -> &Arc<CudaStream> {
        self.0.stream()
    }
}

// SAFETY: a transparent struct around a `GpuStream`, which is one around the `Stream` that it gives out.
#[diagnostic::do_not_recommend]
unsafe impl Device for Cuda {
    #[inline]
    fn stream_handle(&self) -> &Stream {
        self.0.stream_handle()
    }
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
