//! Work that is captured once and launched again and again, with the memory that it uses.

use std::fmt;

use cudarc::driver::CudaGraph;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};

use crate::device::{Cuda, Device};
use gpucache_engine::base::held::assert_nothing_held;
use gpucache_engine::cache::Reservation;
use gpucache_engine::{Error, Result};

/// Work of a stream as one launch, made by [`Cuda::capture`], and the memory that this uses: nobody else gets it before the
/// graph is dropped, whatever scopes are left, invalidated or trimmed meanwhile.
///
/// ```no_run
/// use gpucache::prelude::*;
///
/// let context = gpucache::cudarc::driver::CudaContext::new(0)?;
/// let gpu = Cuda::with_stream(context.new_stream()?)?;
/// let input = gpu.zeros::<f32>(1000)?;
/// let (graph, copy) = gpu.capture(|| input.try_clone())?;
/// for _ in 0..10 {
///     graph.launch()?; // copies anew
/// }
/// assert_eq!(copy.to_vec()?, [0.0; 1000]);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub struct Graph {
    // Destroyed before its memory is anyone else's.
    graph: CudaGraph,
    gpu: Cuda,
    _memory: Reservation,
}

impl Cuda {
    /// Captures what `work` puts on this stream into a graph, instead of doing it.
    ///
    /// Arrays that are allocated meanwhile on this stream, in scopes or not, are the graph's: what is dropped within the
    /// capture serves later allocations of the same capture, and what is returned keeps its place, to be read after each
    /// launch. They come from the device's range, not from the scope's lists or plan, so nothing has to be warm. Arrays of
    /// before that the work uses, and that are dropped later, are kept for the graph as well: those that this crate is shown
    /// (arguments of launches, copies, fills, [`address`](crate::Array::address)).
    ///
    /// The capture is in the relaxed mode, so that the range may grow. Work goes through this one stream: arrays that other
    /// streams use are refused, unless this stream is behind them already. A launch is behind what is on this stream by then:
    /// where other streams wrote what it reads, have this one wait for them.
    ///
    /// # Errors
    /// What `work` returns; [`is_unavailable`](Error::is_unavailable) if the stream is captured already, or for what no graph
    /// holds: copies from and to the host, waits; a failure of the driver. The stream is not captured any more then.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::with_stream(Cuda::new(0)?.stream().context().new_stream().unwrap())?;
    /// let mut input = Array::<f32, _>::zeros(&gpu, 1000)?;
    /// let (graph, output) = gpu.capture(|| {
    ///     let scratch = input.try_clone()?;
    ///     scratch.try_clone()
    /// })?;
    /// input.copy_from_slice(&[2.0; 1000])?;
    /// graph.launch()?;
    /// assert_eq!(output.to_vec()?, [2.0; 1000]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn capture<R, E: From<Error>>(&self, work: impl FnOnce() -> Result<R, E>) -> Result<(Graph, R), E> {
        let stream = self.stream();
        let failure = |operation| move |error| E::from(self.0.failure(operation, error));
        if self.stream_handle().here()?.is_some() {
            return Err(Error::unavailable(
                "a capture of the per-thread default stream",
                "the graph could be launched on another thread, and so on another stream",
                "capture on a stream that `context.new_stream()` made",
            )
            .into());
        }
        let memory = Reservation::begin(self.stream_handle())?;
        self.stream_handle().check_kept()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        stream.begin_capture(mode).map_err(failure("beginning a capture"))?;
        let capture = Capture(self);
        assert_nothing_held();
        let done = work();
        memory.close();
        let graph = capture.end();
        let done = done?;
        match graph.map_err(failure("ending a capture"))? {
            Some(graph) => Ok((Graph { graph, gpu: self.clone(), _memory: memory }, done)),
            None => Err(Error::unavailable(
                "a captured graph",
                "the work put nothing on the stream, or ended the capture itself",
                "capture what puts work on this stream",
            )
            .into()),
        }
    }
}

/// A capture that is under way, and ends with this, also by a panic.
struct Capture<'a>(&'a Cuda);

impl Capture<'_> {
    fn end(self) -> Result<Option<CudaGraph>, cudarc::driver::DriverError> {
        let gpu = std::mem::ManuallyDrop::new(self).0;
        // It would be taken for the answer, and the stream stay captured.
        gpu.0.take_kept(gpu.stream().context());
        gpu.stream().end_capture(CUgraphInstantiate_flags(0))
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        // There is nobody to be told, and nothing is kept of the graph.
        let _ = Capture(self.0).end();
    }
}

impl Graph {
    /// Puts the work on the stream once more, behind what is there.
    ///
    /// # Errors
    /// A failure of the driver.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let context = gpucache::cudarc::driver::CudaContext::new(0)?;
    /// let gpu = Cuda::with_stream(context.new_stream()?)?;
    /// let input = gpu.zeros::<f32>(1000)?;
    /// let (graph, copy) = gpu.capture(|| input.try_clone())?;
    /// graph.launch()?;
    /// assert_eq!(copy.to_vec()?, [0.0; 1000]); // waits for it
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn launch(&self) -> Result<()> {
        self.graph.launch().map_err(|error| self.gpu.0.failure("launching a graph", error))
    }

    /// cudarc's object, for calls that are not here. What is launched by it on other streams is for the caller to order, and
    /// to wait for before the graph is dropped.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let context = gpucache::cudarc::driver::CudaContext::new(0)?;
    /// let gpu = Cuda::with_stream(context.new_stream()?)?;
    /// let input = gpu.zeros::<f32>(1000)?;
    /// let (graph, copy) = gpu.capture(|| input.try_clone())?;
    /// graph.cuda_graph().upload()?; // so that the first launch takes no longer than others
    /// # drop(copy);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn cuda_graph(&self) -> &CudaGraph {
        &self.graph
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a graph of {:?}", self.gpu)
    }
}
