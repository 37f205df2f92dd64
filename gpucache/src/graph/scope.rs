//! The handle of a captured scope.
#![allow(unsafe_code)]

use std::fmt;
use std::hash::Hash;
use std::panic::Location;

use super::beside::OnStream;
use super::inputs::Inputs;
use super::kept::Kept;
use super::outputs::Outputs;
use super::run::{Block, Run, too_many_keys};
use super::stats::GraphStats;
use super::visitor::RunArrays;
use crate::device::Device;
use crate::scope::ScopeGuard;
use gpucache_engine::{Error, Result};

/// A scope whose block is captured into graphs, one for each key.
///
/// **The graph does not repeat the host code of the block.** Numbers that the block computes and branches that it takes stay as they were
/// at the capture. A launch prints nothing. Pass changing numbers in a [`Scalar`](super::Scalar), and give work with other kernels or
/// sizes a key of its own.
///
/// - **Inputs.** Every array that the block uses and does not allocate is an input. If an input lies at another address than before, the
///   address is replaced in the graph. The first time, the block is captured again, to find where the graph has this address. No graph is
///   made if the block uses an array that it neither allocates nor gets as an input ([`GraphStats::last_refusal`]).
/// - **Outputs.** The block returns arrays. The graph copies them to ordinary arrays of the scope around the run, which live as long as
///   you keep them. Outside of all scopes they come from the scope `NAME, outputs`.
/// - **Memory.** All other arrays of the block have to be dropped in it. They lie in the memory of the scope's plan, which all graphs of
///   this name share.
/// - **Scopes inside the block** are parts of the captured scope.
/// - **Streams.** If one thread runs captured scopes of one name on several streams, all but one come to use scopes of their own, such as
///   `NAME, stream 2`.
/// - **Threads.** Use a stream for each thread. While a thread captures, work of other threads on the same stream gets an error.
/// - **Errors.** If a capture fails, the block runs directly. So a block may run twice in a run, the first time without effect on the
///   device.
///
/// On CUDA the stream must be one of `context.new_stream()`, on the host one of [`Host::new_stream`](crate::device::Host::new_stream)
/// with work of [`Host::launch_kernel`](crate::device::Host::launch_kernel). On other streams each run is direct.
///
/// ```
/// use gpucache::{graph::CapturedScope, prelude::*};
///
/// let host = Host::new_stream()?;
/// let mut state = Array::full(&host, 4, 1u32)?;
/// let mut double = CapturedScope::new(&host, "double");
/// for _ in 0..10 {
///     double.run((), &mut state, |state| {
///         host.launch_kernel(state, |state| state.iter_mut().for_each(|x| *x *= 2))
///     })?;
/// }
/// assert_eq!(state.to_vec()?, [1024; 4]);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub struct CapturedScope<K, D> {
    pub(super) device: D,
    /// The scope whose plans the graphs use.
    pub(super) name: String,
    place: OnStream,
    /// The scope of outputs outside of all scopes.
    pub(super) outputs: String,
    pub(super) site: &'static Location<'static>,
    pub(super) kept: Kept<K>,
    pub(super) stats: GraphStats,
    pub(super) compares: bool,
    /// Memory for the arrays of a run.
    seen: RunArrays,
    /// Whether the memory that the block of this run uses is checked.
    is_checked: bool,
}

impl<K: Hash + Eq + Clone, D: Device> CapturedScope<K, D> {
    /// The captured scope `name` on the stream of `device`. It has no graph yet.
    ///
    /// ```
    /// use gpucache::{graph::CapturedScope, prelude::*};
    ///
    /// let host = Host::new_stream()?;
    /// let decode = CapturedScope::<(usize, usize), _>::new(&host, "decode"); // a graph for each batch size and length
    /// assert_eq!(decode.stats().graphs, 0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[track_caller]
    pub fn new(device: &D, name: &str) -> CapturedScope<K, D> {
        let place = OnStream::new(name, device.stream_handle().id());
        let name = place.scope();
        CapturedScope {
            device: device.clone(),
            outputs: format!("{name}, outputs"),
            name,
            place,
            site: Location::caller(),
            kept: Kept::new(),
            stats: GraphStats::default(),
            compares: false,
            seen: RunArrays::default(),
            is_checked: true,
        }
    }

    /// Keeps at most `graphs` graphs, 64 by default, and always the newest one. The least recently used one is dropped for a new one.
    ///
    /// ```
    /// use gpucache::{graph::CapturedScope, prelude::*};
    ///
    /// let host = Host::new_stream()?;
    /// let mut bounded = CapturedScope::new(&host, "bounded").max_graphs(2);
    /// for len in [100, 200, 300] {
    ///     for _ in 0..10 {
    ///         let _ones = bounded.run(len, (), |()| Array::full(&host, len, 1u8))?;
    ///     }
    /// }
    /// assert!(bounded.stats().graphs <= 2, "{}", bounded.stats());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[must_use]
    pub fn max_graphs(mut self, graphs: usize) -> Self {
        self.kept.most_graphs = graphs;
        self
    }

    /// Drops the least recently used graphs while the graphs themselves take more than `bytes` bytes of the device.
    ///
    /// ```
    /// use gpucache::{graph::CapturedScope, prelude::*};
    ///
    /// let host = Host::new_stream()?;
    /// let decode = CapturedScope::<usize, _>::new(&host, "decode").max_bytes(64 << 20); // beside the memory of the arrays
    /// # drop(decode);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.kept.most_bytes = bytes;
        self
    }

    /// With `true`, each run with a graph also runs the block directly, and compares all outputs and written inputs. It waits for both.
    ///
    /// ```
    /// use gpucache::{graph::CapturedScope, prelude::*};
    ///
    /// let host = Host::new_stream()?;
    /// let mut steps = CapturedScope::new(&host, "compared").compare(true);
    /// for number in 0..20 {
    ///     let array = steps.run((), (), |()| Array::full(&host, 8, number)); // a number of the host, which the graph does not change
    ///     if let Err(error) = array {
    ///         assert!(number > 0 && error.to_string().contains("output 0"), "{error}");
    ///         break;
    ///     }
    /// }
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[must_use]
    pub fn compare(mut self, compares: bool) -> Self {
        self.compares = compares;
        self
    }

    /// Does the work of `block`: by the graph of `key` if there is one, otherwise by a call of `block`.
    ///
    /// # Errors
    /// Errors of `block`; out of memory for the outputs; a failure of the device. With [`compare(true)`](CapturedScope::compare),
    /// [`is_unavailable`](Error::is_unavailable) if the graph gave another result. The same error on a GPU if the block puts other arrays in the
    /// place of its inputs: the run that captures it then has no effect on the device, and cannot be done again.
    ///
    /// ```
    /// use gpucache::{graph::CapturedScope, prelude::*};
    ///
    /// let host = Host::new_stream()?;
    /// let mut total = Array::full(&host, 4, 0u64)?;
    /// let mut sums = CapturedScope::new(&host, "sums");
    /// for number in 0..10 {
    ///     let input = Array::full(&host, 4, number)?;
    ///     let copy = sums.run(4, (&input, &mut total), |(input, total)| {
    ///         host.launch_kernel((input, total), |(input, total)| total.iter_mut().zip(input).for_each(|(x, y)| *x += y))?;
    ///         input.try_clone()
    ///     })?;
    ///     assert_eq!(copy.to_vec()?, [number; 4]);
    /// }
    /// assert_eq!(total.to_vec()?, [45; 4]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn run<I, R, E>(
        &mut self,
        key: K,
        inputs: I,
        mut block: impl for<'a> FnMut(I::Lent<'a>) -> Result<R, E>,
    ) -> Result<R, E>
    where
        I: Inputs<D>,
        R: Outputs<D>,
        E: From<Error>,
    {
        self.run_any(&key, inputs, &mut block, true)
    }

    /// As [`run`](CapturedScope::run), but the block may use memory that is no input, such as tensors of other crates and workspaces of
    /// libraries.
    ///
    /// # Errors
    /// As for [`run`](CapturedScope::run).
    ///
    /// # Safety
    /// The block may use memory that it neither allocates in a scope nor gets as an input. The caller keeps all of this memory
    /// allocated, and at its place, until the key is removed or this value is dropped. The caller orders work on other streams that
    /// uses this memory.
    ///
    /// ```
    /// use gpucache::{graph::CapturedScope, prelude::*};
    ///
    /// let host = Host::new_stream()?;
    /// let mut counter = Array::full(&host, 1, 0u32)?;
    /// let mut counts = CapturedScope::new(&host, "counts");
    /// for _ in 0..10 {
    ///     // SAFETY: the block uses `counter` alone, which lives longer than the captured scope and does not move.
    ///     unsafe {
    ///         counts.run_unchecked((), (), |()| host.launch_kernel(&mut counter, |counter| counter[0] += 1))?;
    ///     }
    /// }
    /// assert_eq!(counter.to_vec()?, [10]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub unsafe fn run_unchecked<I, R, E>(
        &mut self,
        key: K,
        inputs: I,
        mut block: impl for<'a> FnMut(I::Lent<'a>) -> Result<R, E>,
    ) -> Result<R, E>
    where
        I: Inputs<D>,
        R: Outputs<D>,
        E: From<Error>,
    {
        self.run_any(&key, inputs, &mut block, false)
    }

    fn run_any<'b, I: Inputs<D> + 'b, R: Outputs<D>, E: From<Error>>(
        &mut self,
        key: &K,
        mut inputs: I,
        block: &mut Block<'b, D, I, R, E>,
        is_checked: bool,
    ) -> Result<R, E> {
        if Run::is_part_of_another(&self.device) {
            return block(inputs.lend());
        }
        self.is_checked = is_checked;
        if self.compares {
            return self.run_compared(key, inputs, block);
        }
        if let Some(done) = self.run_graph(key, &mut inputs) {
            return done.map_err(E::from);
        }
        self.run_block(key, &mut inputs, block)
    }

    /// Does the work by the graph of `key`, if it can. An error means that a part of the work is done.
    #[inline]
    pub(super) fn run_graph<I: Inputs<D>, R: Outputs<D>>(&mut self, key: &K, inputs: &mut I) -> Option<Result<R>> {
        let (kept, mut run) = self.parts();
        let done = run.launch(kept.with_graph(key)?, inputs)?;
        // A deferred failure comes before the launch.
        let counted = match &done {
            Err(error) if error.is_deferred() => &mut self.stats.direct,
            _ => &mut self.stats.launches,
        };
        *counted += 1;
        Some(done)
    }

    /// The state of each key, and a run.
    #[inline]
    fn parts(&mut self) -> (&mut Kept<K>, Run<'_, D>) {
        let run = Run {
            device: &self.device,
            name: &self.name,
            outputs: &self.outputs,
            site: self.site,
            stats: &mut self.stats,
            seen: &mut self.seen,
            around: ScopeGuard::innermost(),
        };
        (&mut self.kept, run)
    }

    /// Does the work by a call of the block, captured or not.
    #[cold]
    pub(super) fn run_block<'b, I: Inputs<D> + 'b, R: Outputs<D>, E: From<Error>>(
        &mut self,
        key: &K,
        inputs: &mut I,
        block: &mut Block<'b, D, I, R, E>,
    ) -> Result<R, E> {
        let captures = self.kept.of(key).tries.is_due();
        if captures {
            self.make_room(key);
        }
        let is_checked = self.is_checked;
        let (kept, mut run) = self.parts();
        if captures && let Some(done) = run.capture(kept.of(key), inputs, block, is_checked) {
            self.make_room(key);
            return done;
        }
        self.run_directly(key, inputs, block)
    }

    /// Keeps to the bounds of graphs with one of `key`. Graphs that lost their executables take no room.
    fn make_room(&mut self, key: &K) {
        self.stats.lost += self.kept.forget_lost();
        self.stats.evicted += self.kept.make_room(key);
    }

    /// Does the work by a call of the block that is not captured.
    pub(super) fn run_directly<'b, I: Inputs<D> + 'b, R: Outputs<D>, E: From<Error>>(
        &mut self,
        key: &K,
        inputs: &mut I,
        block: &mut Block<'b, D, I, R, E>,
    ) -> Result<R, E> {
        if std::mem::take(&mut self.kept.has_forgotten) {
            self.stats.last_refusal = Some(too_many_keys().to_string());
        }
        let (kept, mut run) = self.parts();
        let done = run.direct(kept.of(key), inputs, block);
        if self.place.take_own_scope(&self.stats, &self.kept.of(key).tries) {
            self.name = self.place.scope();
            self.outputs = format!("{}, outputs", self.name);
        }
        done
    }

    /// Drops the graph of `key`, and all that is known of the key. Returns whether the key was known.
    ///
    /// ```
    /// use gpucache::{graph::CapturedScope, prelude::*};
    ///
    /// let host = Host::new_stream()?;
    /// let mut ones = CapturedScope::new(&host, "ones");
    /// let _ones = ones.run(8, (), |()| Array::full(&host, 8, 1u8))?;
    /// assert!(ones.remove(&8) && !ones.remove(&8));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn remove(&mut self, key: &K) -> bool {
        self.kept.keys.remove(key).is_some()
    }

    /// Drops all graphs.
    ///
    /// ```
    /// use gpucache::{graph::CapturedScope, prelude::*};
    ///
    /// let host = Host::new_stream()?;
    /// let mut ones = CapturedScope::new(&host, "ones");
    /// for _ in 0..10 {
    ///     let _ones = ones.run((), (), |()| Array::full(&host, 8, 1u8))?;
    /// }
    /// ones.clear();
    /// assert_eq!(ones.stats().graphs, 0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn clear(&mut self) {
        self.kept.keys.clear();
    }

    /// The runs of the captured scope so far, and the graphs that it holds.
    ///
    /// ```
    /// use gpucache::{graph::CapturedScope, prelude::*};
    ///
    /// let host = Host::new_stream()?;
    /// let mut ones = CapturedScope::new(&host, "ones");
    /// let _ones = ones.run((), (), |()| Array::full(&host, 8, 1u8))?;
    /// assert_eq!((ones.stats().direct, ones.stats().launches), (1, 0)); // the scope has just begun to learn
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn stats(&self) -> GraphStats {
        GraphStats { graphs: self.kept.graphs(), executable_bytes: self.kept.bytes(), ..self.stats.clone() }
    }
}

impl<K: Hash + Eq + Clone, D: Device> fmt::Debug for CapturedScope<K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "captured scope `{}` on {:?}: {}", self.name, self.device, self.stats())
    }
}
