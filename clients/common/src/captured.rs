//! A scope whose work becomes a CUDA graph. Without the feature `scoped` gpucache is not linked, and there is none.

use serde::Serialize;

/// Counters of a captured scope: gpucache's `GraphStats`.
#[derive(Clone, Serialize)]
pub struct GraphReport {
    graphs: u64,
    launches: u64,
    captures: u64,
    /// Runs without a graph.
    direct: u64,
    executable_bytes: u64,
    refused: u64,
    /// Why the last capture gave no graph.
    last_refusal: Option<String>,
}

#[cfg(feature = "scoped")]
pub use linked::Captured;
#[cfg(not(feature = "scoped"))]
pub use missing::Captured;

#[cfg(feature = "scoped")]
mod linked {
    use std::sync::Arc;

    use anyhow::Result;
    use cudarc::driver::CudaStream;
    use gpucache::device::Cuda;
    use gpucache::graph::CapturedScope;

    use super::GraphReport;

    /// One piece of work, which is a graph once its scope has a plan.
    pub struct Captured(CapturedScope<(), Cuda>);

    impl Captured {
        /// For work on this stream, in the scope with this name.
        pub fn new(stream: &Arc<CudaStream>, name: &str) -> Result<Self> {
            Ok(Self(CapturedScope::new(&Cuda::with_stream(stream.clone())?, name)))
        }

        /// Runs the work, or its graph.
        ///
        /// # Safety
        /// The work must be the same in each call, and the memory that it uses and does not allocate must stay valid and at its
        /// place.
        pub unsafe fn run(&mut self, mut work: impl FnMut() -> Result<()>) -> Result<()> {
            // SAFETY: the caller's promise.
            unsafe { self.0.run_unchecked((), (), |()| work()) }
        }

        pub fn report(&self) -> GraphReport {
            let stats = self.0.stats();
            GraphReport {
                graphs: stats.graphs as u64,
                launches: stats.launches,
                captures: stats.captures,
                direct: stats.direct,
                executable_bytes: stats.executable_bytes,
                refused: stats.refused,
                last_refusal: stats.last_refusal,
            }
        }
    }
}

#[cfg(not(feature = "scoped"))]
mod missing {
    use std::sync::Arc;

    use anyhow::{Result, bail};
    use cudarc::driver::CudaStream;

    use super::GraphReport;

    /// Never made.
    pub enum Captured {}

    impl Captured {
        pub fn new(_stream: &Arc<CudaStream>, _name: &str) -> Result<Self> {
            bail!("this binary was built without the feature `scoped`: it has no captured scopes")
        }

        /// # Safety
        /// There is nothing to call it on.
        pub unsafe fn run(&mut self, _work: impl FnMut() -> Result<()>) -> Result<()> {
            match *self {}
        }

        pub fn report(&self) -> GraphReport {
            match *self {}
        }
    }
}
