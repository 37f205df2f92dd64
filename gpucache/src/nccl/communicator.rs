//! [`Communicator`]: one rank, from its connection to its drop.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::buffer::Uses;
use super::library::{Id, Library};
use super::link::Link;
use super::operation::Operation;
use crate::device::Cuda;
use gpucache_engine::base::sync::{Mutex, MutexGuard, lock};
use gpucache_engine::device::process_exits;
use gpucache_engine::{Error, Result};

/// The handle of the per-thread default stream.
const PER_THREAD: usize = 2;

/// One rank of a group of GPUs that exchange arrays, as a thread or as a process.
///
/// Each call queues a collective on the communicator's [`stream`](Communicator::stream) and returns. The stream waits for earlier uses of
/// the arrays on their own streams, and later uses wait for the collective. An array may be dropped as soon as the call returns. A stream
/// of its own lets communication run beside the work of other streams.
///
/// The calls take arrays, [views](crate::launch::ArrayView), [mutable views](crate::launch::ArrayViewMut), and cudarc's slices and views of
/// the communicator's GPU. All ranks make the same calls in the same order. A call returns an error if the lengths do not fit
/// ([`is_invalid_shape`](Error::is_invalid_shape)), and if a rank failed ([`is_device_failure`](Error::is_device_failure)).
///
/// A failure of another rank does not end a collective that is already on the stream. So let a thread ask for
/// [`failure`](Communicator::failure) now and then, and [`abort`](Communicator::abort): the collectives then end, with undefined results.
///
/// Several threads may share a communicator; their calls are made one at a time. A call takes some tens of microseconds, which include
/// NCCL's own queueing. A [`group`](Communicator::group) takes this time once.
///
/// The drop waits for the queued collectives, but not longer than about twice the timeout of [`connect`](Communicator::connect).
///
/// ```no_run
/// use std::time::Duration;
/// use gpucache::{cudarc::driver::CudaContext, nccl::{Communicator, Id, Reduction}, prelude::*};
///
/// fn average(rank: usize, ranks: usize, id: &Id, loss: f32) -> gpucache::Result<f32> {
///     let gpu = Cuda::new(rank)?;
///     let stream = Cuda::with_stream(gpu.stream().context().new_stream()?)?;
///     let all = Communicator::connect(&stream, id, rank, ranks, Duration::from_secs(30))?;
///     let mut losses = Array::full(&gpu, 1, loss)?;
///     all.all_reduce_in_place(&mut losses, Reduction::Mean)?;
///     Ok(losses.to_vec()?[0]) // waits for the collective
/// }
/// ```
pub struct Communicator {
    pub(super) link: Arc<Link>,
    stream: Cuda,
    pub(super) rank: usize,
    pub(super) ranks: usize,
    /// Held by the thread whose call NCCL is working on.
    turn: Mutex<()>,
}

impl Communicator {
    /// Connects this rank with all others. `ranks` threads or processes call this with the same `id`, each with its own rank, counted from
    /// 0, and usually each with its own GPU.
    ///
    /// Connecting does not hang: a missing rank is an error after `timeout`. Later calls also wait for the other ranks for at most
    /// `timeout`, and then abort the communicator. The first collectives need this wait, because NCCL sets up connections in them.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) without NCCL 2.19 or newer, for a rank that is not below `ranks`, and for the per-thread
    /// default stream; [`is_device_failure`](Error::is_device_failure) if a rank is missing or failed.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use gpucache::{nccl::{Communicator, Id}, prelude::*};
    ///
    /// let id = Id::new()?;
    /// let alone = Communicator::connect(&Cuda::new(0)?, &id, 0, 2, Duration::from_secs(1));
    /// assert!(alone.unwrap_err().is_device_failure()); // rank 1 is missing
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn connect(stream: &Cuda, id: &Id, rank: usize, ranks: usize, timeout: Duration) -> Result<Communicator> {
        let numbers = numbers(rank, ranks)?;
        if stream.stream().cu_stream() as usize == PER_THREAD {
            return Err(Error::unavailable(
                "the per-thread default stream in NCCL",
                "NCCL queues collectives from threads of its own",
                "use a stream of `CudaContext::new_stream`",
            ));
        }
        let library = Library::get()?;
        let name = format!("NCCL rank {rank} of {ranks} on {stream:?}");
        stream.0.make_current();
        let link = Arc::new(Link::connect(library, id, numbers, name, timeout)?);
        Ok(Communicator { link, stream: stream.clone(), rank, ranks, turn: Mutex::new(()) })
    }

    /// The stream of the collectives.
    ///
    /// ```no_run
    /// use gpucache::{device::Device, nccl::Communicator};
    ///
    /// fn finish(ranks: &Communicator) -> gpucache::Result<()> {
    ///     ranks.stream().synchronize() // may wait forever if a rank failed; `wait` does not
    /// }
    /// ```
    pub fn stream(&self) -> &Cuda {
        &self.stream
    }

    /// The number of this rank, from 0.
    ///
    /// ```no_run
    /// use gpucache::nccl::Communicator;
    ///
    /// fn is_main(ranks: &Communicator) -> bool {
    ///     ranks.rank() == 0
    /// }
    /// ```
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of all ranks.
    ///
    /// ```no_run
    /// use gpucache::nccl::Communicator;
    ///
    /// fn own_rows(ranks: &Communicator, rows: usize) -> usize {
    ///     rows / ranks.ranks()
    /// }
    /// ```
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Queues operations whose arrays are ordered. The uses end once the work is on the stream.
    pub(super) fn launch<'a>(&self, operations: &[Operation], uses: impl IntoIterator<Item = Uses<'a>>) -> Result<()> {
        // In a capture of another thread, the collective would become a part of that graph.
        self.stream.0.stream_handle().check_thread()?;
        let launched = {
            let _turn = self.turn();
            // SAFETY: the handle is that of a live stream of this GPU, which `self` keeps alive. `prepared` gave the operations their addresses,
            // so they stay within arrays whose memory is reused only behind the stream's work, and which are ordered for the stream.
            unsafe { self.link.launch(operations, self.stream.stream().cu_stream().cast()) }
        };
        uses.into_iter().for_each(|uses| uses.end(launched.is_ok()));
        launched?;
        self.stream.0.stream_handle().check_thread()
    }

    /// Waits until NCCL has taken the calls of other threads, and makes the GPU's context current.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        let turn = lock(&self.turn);
        self.stream.0.make_current();
        turn
    }

    /// The error that NCCL met since the communicator was connected, or the cause of an [`abort`](Communicator::abort); `None` without one.
    ///
    /// This asks NCCL and does not wait for anything. An error concerns all collectives that are not done.
    ///
    /// ```no_run
    /// use std::{sync::{Arc, atomic::{AtomicBool, Ordering}}, time::Duration};
    /// use gpucache::nccl::Communicator;
    ///
    /// /// Ends the collectives of this rank when another one fails.
    /// fn watch(ranks: Arc<Communicator>, is_done: &AtomicBool) {
    ///     while !is_done.load(Ordering::Relaxed) {
    ///         if let Some(error) = ranks.failure() {
    ///             return ranks.abort(&error.to_string());
    ///         }
    ///         std::thread::sleep(Duration::from_millis(100));
    ///     }
    /// }
    /// ```
    pub fn failure(&self) -> Option<Error> {
        self.link.failure()
    }

    /// Ends all collectives of this rank, from any thread. Their results are undefined. Later calls return an error that names `cause`.
    ///
    /// NCCL does not tell the other ranks, unless they wait for this rank's process. A second abort does nothing.
    ///
    /// ```no_run
    /// use gpucache::nccl::Communicator;
    ///
    /// fn give_up(ranks: &Communicator) {
    ///     ranks.abort("the data set is broken");
    ///     assert!(ranks.failure().unwrap().to_string().contains("data set"));
    /// }
    /// ```
    pub fn abort(&self, cause: &str) {
        self.link.abort(cause);
    }

    /// Makes the calling thread wait until the queued collectives are done, at most for `timeout`.
    ///
    /// # Errors
    /// [`is_device_failure`](Error::is_device_failure) if the time is over, NCCL met an error, or the communicator was aborted. The
    /// collectives go on after a timeout.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use gpucache::nccl::Communicator;
    ///
    /// fn finish(ranks: &Communicator) -> gpucache::Result<()> {
    ///     ranks.wait(Duration::from_secs(10))
    /// }
    /// ```
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        self.link.wait_for(self.stream(), timeout)
    }
}

/// The rank and the number of ranks as NCCL counts them.
fn numbers(rank: usize, ranks: usize) -> Result<(c_int, c_int)> {
    let refused = |detail, remedy| Error::unavailable(format_args!("rank {rank} of {ranks} ranks"), detail, remedy);
    if rank >= ranks {
        return Err(refused("ranks count from 0", "pass a rank below the number of all ranks"));
    }
    let numbers = c_int::try_from(rank).ok().zip(c_int::try_from(ranks).ok());
    numbers.ok_or_else(|| refused("NCCL counts at most 2147483647 ranks", "pass the number of all ranks"))
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.link.name)
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // At the exit of the process, the system frees everything.
        if process_exits() {
            return;
        }
        match self.wait(self.link.timeout) {
            Ok(()) => self.link.close(),
            Err(error) => self.link.abort(&error.to_string()),
        }
    }
}
