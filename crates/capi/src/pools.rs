//! Memory that captured graphs keep. While a graph is captured, its *pool* serves the streams of the capture. Nobody else gets that memory
//! until the last graph of the pool is gone.
//!
//! A pool has one reservation for each stream. Memory that is freed serves only later allocations of the pool on the same stream.

use std::sync::Arc;
use std::thread::{ThreadId, current, yield_now};
use std::time::{Duration, Instant};

use gpucache::{Error, Result};
use gpucache_engine::cache::{Block, GraphMemory};
use gpucache_engine::device::{Handle, Stream, process_exits};
use gpucache_engine::record::Request;
use parking_lot::Mutex;

use crate::devices::default_stream;
use crate::streams::in_capture;
use crate::{captures, forks};

/// Tells whether a pool serves a stream now. It is code of the framework, which runs while no lock is held.
pub type Filter = Box<dyn Fn(usize) -> bool + Send + Sync>;

/// The device of a pool, and the framework's name of the pool.
type Name = (i32, (u64, u64));

#[derive(Default)]
struct Pool {
    /// The streams that it serves now; `None` if nothing is captured for it.
    filter: Option<Arc<Filter>>,
    /// The thread that began it last.
    by: Option<ThreadId>,
    /// How many graphs have memory in it.
    graphs: usize,
    memory: Arc<GraphMemory>,
}

static POOLS: Mutex<Vec<(Name, Pool)>> = Mutex::new(Vec::new());

/// How long the end of a pool waits for calls of its filter. They ask the driver, which takes microseconds. A filter that ends its own pool
/// would wait for itself.
const FILTER_PATIENCE: Duration = Duration::from_secs(1);

/// Pools whose graphs are all gone, and whose memory launches may still use.
static ENDED: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

/// Blocks that other streams use and that were freed while a graph was captured.
static KEPT: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// Lets a pool serve the streams for which `filter` holds, until [`pool_end`]. The pool is made if there is none of this name. Each call
/// counts as a graph, which ends by [`pool_release`].
///
/// # Errors
/// If the pool serves already, or if there is no such device.
///
/// ```
/// gpucache_capi::pool_begin(-1, (1, 0), Box::new(|_stream| true))?;
/// let address = gpucache_capi::allocate(4096, -1, 0)?; // of the pool
/// gpucache_capi::pool_end(-1, (1, 0))?;
/// gpucache_capi::free(address)?;
/// gpucache_capi::pool_release(-1, (1, 0))?;
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn pool_begin(device: i32, id: (u64, u64), filter: Filter) -> Result<()> {
    let prepare = || default_stream(device).map(|stream| GraphMemory::prepare(&stream));
    Handle::in_relaxed_capture(|| Handle::keeping_current(prepare))?;
    let mut pools = POOLS.lock();
    if !pools.iter().any(|(name, _)| *name == (device, id)) {
        pools.push(((device, id), Pool::default()));
    }
    let Some(pool) = find(&mut pools, device, id) else { return Err(unknown(id)) };
    if pool.filter.is_some() {
        return Err(Error::unavailable(title(id), "a graph is captured into it already", "end that capture first"));
    }
    (pool.filter, pool.graphs, pool.by) = (Some(Arc::new(filter)), pool.graphs + 1, Some(current().id()));
    captures::begin();
    Ok(())
}

/// Ends what [`pool_begin`] began. The pool keeps its memory for the graph. The filter is not called any more.
///
/// # Errors
/// If the pool does not serve.
///
/// ```
/// assert!(gpucache_capi::pool_end(-1, (7, 7)).is_err()); // there is no such pool
/// ```
pub fn pool_end(device: i32, id: (u64, u64)) -> Result<()> {
    let mut pools = POOLS.lock();
    let filter = find(&mut pools, device, id).and_then(|pool| pool.filter.take());
    let Some(filter) = filter else { return Err(unknown(id)) };
    let ended = take_ended(&mut pools, device, id);
    drop(pools);
    end_filter(filter);
    ENDED.lock().extend(ended);
    capture_ends();
    Ok(())
}

/// Waits until no thread is inside the filter, and drops it. No lock is held meanwhile, since it is code of the framework.
fn end_filter(filter: Arc<Filter>) {
    let begin = Instant::now();
    while Arc::strong_count(&filter) > 1 && begin.elapsed() < FILTER_PATIENCE {
        yield_now();
    }
    drop(filter);
}

/// Notes that other code captures a graph, until [`capture_ends`]. Until then, nothing is done that would end its capture.
///
/// ```
/// gpucache_capi::capture_begins();
/// gpucache_capi::capture_ends();
/// ```
pub fn capture_begins() {
    captures::begin();
}

/// Undoes one [`capture_begins`]. With the last one, memory goes back that had to wait.
pub fn capture_ends() {
    captures::end();
    end_pools();
}

/// Notes that a graph of a pool is gone. With the last one, the memory of the pool is free, except what is still in use.
///
/// # Errors
/// If there is no such pool.
///
/// ```
/// assert!(gpucache_capi::pool_release(-1, (7, 7)).is_err()); // there is no such pool
/// ```
pub fn pool_release(device: i32, id: (u64, u64)) -> Result<()> {
    let mut pools = POOLS.lock();
    let pool = find(&mut pools, device, id).ok_or_else(|| unknown(id))?;
    pool.graphs = pool.graphs.saturating_sub(1);
    let ended = take_ended(&mut pools, device, id);
    drop(pools);
    ENDED.lock().extend(ended);
    end_pools();
    Ok(())
}

/// The pools that the calling thread began and did not end, by device and name.
///
/// ```
/// gpucache_capi::pool_begin(-1, (1, 1), Box::new(|_stream| true))?;
/// assert_eq!(gpucache_capi::open_pools(), [(-1, (1, 1))]);
/// # gpucache_capi::pool_end(-1, (1, 1))?;
/// # gpucache_capi::pool_release(-1, (1, 1))?;
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn open_pools() -> Vec<(i32, (u64, u64))> {
    let is_open = |pool: &Pool| pool.filter.is_some() && pool.by == Some(current().id());
    POOLS.lock().iter().filter(|(_, pool)| is_open(pool)).map(|(name, _)| *name).collect()
}

/// Keeps a freed block while a graph is captured and other streams use it, since its own stream cannot wait for them until the capture has
/// ended. Returns any other block.
#[inline]
pub(crate) fn kept_for_capture(block: Block) -> Option<Block> {
    if !captures::is_any() || !block.is_used_elsewhere() {
        return Some(block);
    }
    let mut kept = KEPT.lock();
    // Asked under the lock, since the end of the last capture takes these blocks out.
    if !captures::is_any() {
        return Some(block);
    }
    kept.push(block);
    None
}

/// Takes a pool out that has no graph any more, and into which none is captured now.
fn take_ended(pools: &mut Vec<(Name, Pool)>, device: i32, id: (u64, u64)) -> Option<Pool> {
    let is_over = |(name, pool): &(Name, Pool)| *name == (device, id) && pool.graphs == 0 && pool.filter.is_none();
    pools.iter().position(is_over).map(|place| pools.swap_remove(place).1)
}

/// Frees blocks that were kept for a capture, and the memory of pools without graphs. Launches of these graphs may still run on any stream, so
/// this waits for the device. A wait would end a capture, so while one is made, the pools stay. If the wait fails, they stay too.
pub(crate) fn end_pools() {
    if Stream::is_any_in_capture() || process_exits() {
        return;
    }
    // Memory is freed while no lock is held.
    let mut kept = std::mem::take(&mut *KEPT.lock());
    let mut ended = std::mem::take(&mut *ENDED.lock());
    // The driver works for the parent alone.
    let of_parent = |pool: &mut Pool| pool.memory.streams().iter().any(forks::is_of_parent);
    ended.extract_if(.., of_parent).for_each(std::mem::forget);
    kept.extract_if(.., |block| forks::is_of_parent(block.stream())).for_each(std::mem::forget);
    Handle::keeping_current(|| {
        drop(kept);
        let is_done = |pool: &mut Pool| pool.memory.streams().iter().all(Handle::wait_for_context_of);
        let done: Vec<Pool> = ended.extract_if(.., is_done).collect();
        ENDED.lock().extend(ended);
        drop(done);
    });
}

fn find(pools: &mut [(Name, Pool)], device: i32, id: (u64, u64)) -> Option<&mut Pool> {
    pools.iter_mut().find(|(name, _)| *name == (device, id)).map(|(_, pool)| pool)
}

/// A block of the pool that serves this stream now. `None` if no pool does.
#[cold]
pub(crate) fn allocate(bytes: usize, device: i32, stream: usize) -> Option<Result<Block>> {
    let open: Vec<_> = POOLS.lock().iter().filter_map(|(name, pool)| Some((*name, pool.filter.clone()?))).collect();
    let (name, filter) = open.iter().find(|(name, filter)| name.0 == device && filter(stream))?;
    let memory = serving(*name, filter)?;
    drop(open);
    let serve = || memory.allocate(&in_capture(device, stream)?, &Request::of_bytes(&[bytes]));
    Some(Handle::in_relaxed_capture(|| Handle::keeping_current(serve)))
}

/// The memory of a pool, if it still serves by this filter. The pool may have ended while the filter ran.
fn serving((device, id): Name, filter: &Arc<Filter>) -> Option<Arc<GraphMemory>> {
    let mut pools = POOLS.lock();
    let pool = find(&mut pools, device, id)?;
    pool.filter.as_ref().is_some_and(|now| Arc::ptr_eq(now, filter)).then(|| pool.memory.clone())
}

fn title(id: (u64, u64)) -> String {
    format!("the pool ({}, {})", id.0, id.1)
}

fn unknown(id: (u64, u64)) -> Error {
    Error::unavailable(title(id), "no graph is captured into it, or it was released", "begin the pool first")
}
