//! Work that is captured once and launched many times, together with the memory that it uses.

use std::fmt;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaGraph, DriverError};

use crate::device::{Cuda, Device};
use gpucache_engine::base::finally::finally;
use gpucache_engine::base::held::assert_nothing_held;
use gpucache_engine::cache::GraphMemory;
use gpucache_engine::{Error, Result};

/// Captured work of a stream that is launched as a whole, created by [`Cuda::capture`]. The graph keeps the memory that the work uses:
/// nobody else gets that memory before the graph is dropped, even if scopes are left, invalidated or trimmed meanwhile.
///
/// ```no_run
/// use gpucache::prelude::*;
///
/// let context = gpucache::cudarc::driver::CudaContext::new(0)?;
/// let gpu = Cuda::with_stream(context.new_stream()?)?;
/// let input = gpu.zeros::<f32>(1000)?;
/// let (graph, copy) = gpu.capture(|| input.try_clone())?;
/// for _ in 0..10 {
///     graph.launch()?; // copies again
/// }
/// assert_eq!(copy.to_vec()?, [0.0; 1000]);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub struct Graph {
    // Dropped first, before others can get its memory.
    graph: CudaGraph,
    gpu: Cuda,
    _memory: GraphMemory,
}

impl Cuda {
    /// Captures the work that `work` queues on this stream into a graph, instead of running it.
    ///
    /// Arrays that are allocated on this stream during the capture belong to the graph, in scopes or not. The memory of an array that is
    /// dropped during the capture serves later allocations of the same capture. An array that `work` returns keeps its address, so it can
    /// be read after each launch. The device's range serves these arrays, not the scope's lists or plan, so the scope need not be warm. The
    /// graph also keeps earlier arrays that the work uses and that are dropped later. These are the arrays that this crate sees:
    /// arguments of launches, copies, fills, [`address`](crate::Array::address).
    ///
    /// The capture uses the relaxed mode, so that the range may grow. All work has to go through this one stream: arrays that other
    /// streams use are refused, unless this stream is already ordered behind them. A launch comes behind the work that is on this stream
    /// at that time. If other streams write its inputs, make this stream wait for them.
    /// # Errors
    /// Errors that `work` returns; [`is_unavailable`](Error::is_unavailable) if the stream is already captured, or for an operation that
    /// a graph cannot contain (copies from and to the host, waits); a failure of the driver. The capture has then ended.
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
        let memory = GraphMemory::begin(self.stream_handle())?;
        self.stream_handle().check_kept()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        stream.begin_capture(mode).map_err(failure("beginning a capture"))?;
        let mut graph = Ok(None);
        let done = {
            // Also after a panic.
            let _end = finally(|| graph = self.end_capture());
            assert_nothing_held();
            work()
        };
        memory.close();
        let done = done?;
        match graph.map_err(failure("ending a capture"))? {
            Some(graph) => Ok((Graph { graph, gpu: self.clone(), _memory: memory }, done)),
            None => Err(Error::unavailable(
                "a captured graph",
                "the work put nothing on the stream, or ended the capture itself",
                "put work on this stream in the closure, and do not end the capture there",
            )
            .into()),
        }
    }

    fn end_capture(&self) -> Result<Option<CudaGraph>, DriverError> {
        // Otherwise `end_capture` would return the kept failure instead, and the stream would stay captured.
        self.0.take_kept(self.stream().context());
        self.stream().end_capture(CUgraphInstantiate_flags(0))
    }
}

impl Graph {
    /// Queues the work on the stream once more, behind the work that is there.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) while another thread captures the stream for a captured scope; a failure of the driver.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let context = gpucache::cudarc::driver::CudaContext::new(0)?;
    /// let gpu = Cuda::with_stream(context.new_stream()?)?;
    /// let input = gpu.zeros::<f32>(1000)?;
    /// let (graph, copy) = gpu.capture(|| input.try_clone())?;
    /// graph.launch()?;
    /// assert_eq!(copy.to_vec()?, [0.0; 1000]); // waits for the launch
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn launch(&self) -> Result<()> {
        self.gpu.stream_handle().check_thread()?;
        self.gpu.0.take_kept(self.gpu.stream().context());
        self.graph.launch().map_err(|error| self.gpu.0.failure("launching a graph", error))?;
        self.gpu.stream_handle().check_thread()
    }

    /// cudarc's object, for calls that this type does not have. If it launches the graph on other streams, the caller orders these
    /// launches, and waits for them before the graph is dropped.
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
