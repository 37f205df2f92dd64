//! Statistics of a captured scope.

use std::fmt;

/// The runs of a [`CapturedScope`](super::CapturedScope) so far, and the graphs that it holds.
///
/// ```
/// use gpucache::{graph::CapturedScope, prelude::*};
///
/// let host = Host::new_stream()?;
/// let mut scope = CapturedScope::new(&host, "stats");
/// for _ in 0..10 {
///     let _sum = scope.run(0, (), |()| Array::full(&host, 8, 1.0f32))?;
/// }
/// let stats = scope.stats();
/// assert_eq!(stats.launches + stats.captures + stats.direct, 10);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphStats {
    /// Graphs that exist now.
    pub graphs: usize,
    /// Bytes of the device that these graphs take, beside the memory of their arrays. They count under the limits of the device. An
    /// allocation that finds no other memory takes them away ([`ReclaimStep::Graphs`](crate::stats::ReclaimStep::Graphs)).
    pub executable_bytes: u64,
    /// Runs that launched a graph and did not run the block.
    pub launches: u64,
    /// Runs whose block was captured into a graph.
    pub captures: u64,
    /// Runs that did the work of the block directly. Each run counts here, in `launches` or in `captures`, except those inside other
    /// captured work, which are parts of it.
    pub direct: u64,
    /// Launches before which addresses in the graph were replaced, since an input or output had moved.
    pub moved: u64,
    /// Graphs that were dropped to keep to [`max_graphs`](super::CapturedScope::max_graphs) and
    /// [`max_bytes`](super::CapturedScope::max_bytes).
    pub evicted: u64,
    /// Graphs that lost their executables, since an allocation took their memory in a shortage, or that failed at a launch. The block runs
    /// directly then, unless the launch failed on the host with a part of the work done: then the run returns its error. The block is captured
    /// again after one run, or after more if its key loses its graph again and again.
    pub lost: u64,
    /// Captures that gave no graph.
    pub refused: u64,
    /// Why the last capture gave no graph, why a block is not captured, or why the graph of a key did not serve a run of it.
    pub last_refusal: Option<String>,
}

impl fmt::Display for GraphStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GraphStats {
            graphs,
            executable_bytes,
            launches,
            captures,
            direct,
            moved,
            evicted,
            lost,
            refused,
            last_refusal,
        } = self;
        write!(f, "{launches} launches ({moved} with moved arrays), {captures} captures, {direct} direct runs; ")?;
        write!(
            f,
            "{graphs} graphs of {executable_bytes} bytes, {evicted} evicted, {lost} lost; {refused} captures refused"
        )?;
        last_refusal.iter().try_for_each(|why| write!(f, ", last: {why}"))
    }
}
