//! NCCL's communicator of one rank: how long it lives, and how its answers are waited for.
//!
//! NCCL's object is freed by an abort, which may come from any thread. So each call of it is made under the lock of the object, and takes
//! microseconds: a communicator that does not block does the rest in the background. An abort takes the object out of the lock first. Waits
//! take the lock anew for each question, so an abort ends them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::library::{Code, Config, Id, Library, RawComm};
use super::operation::Operation;
use crate::device::Cuda;
use gpucache_engine::base::sync::{Mutex, OnceLock, lock};
use gpucache_engine::{Error, Result};

/// How long a thread asks NCCL again without a pause. A call usually takes less: a pause is longer than the call then.
const EAGER: Duration = Duration::from_micros(100);
/// The first and the longest pause between two later questions.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// How long this thread waits for NCCL to free a communicator, beyond the timeout of the communicator.
const LONGEST_END: Duration = Duration::from_secs(5);

/// NCCL's object, which is alive. No other code has it, and only [`end`] frees it.
struct Comm(RawComm);

// SAFETY: NCCL's object belongs to no thread: any thread may call it, one at a time.
unsafe impl Send for Comm {}

/// One rank's end of a communicator.
pub(super) struct Link {
    library: &'static Library,
    /// `None` once it was aborted or destroyed.
    comm: Mutex<Option<Comm>>,
    /// Why it was aborted.
    lost: OnceLock<String>,
    /// The rank and its GPU, for messages.
    pub(super) name: String,
    /// How long a call waits for the other ranks.
    pub(super) timeout: Duration,
    /// Whether the object is gone, and puts no more work on any stream.
    is_over: Arc<AtomicBool>,
}

impl Link {
    /// Connects all ranks. The context of the rank's GPU is current.
    ///
    /// # Errors
    /// [`is_device_failure`](Error::is_device_failure) if NCCL cannot connect, or not all ranks came within the timeout.
    pub(super) fn connect(
        library: &'static Library,
        id: &Id,
        (rank, ranks): (c_int, c_int),
        name: String,
        timeout: Duration,
    ) -> Result<Link> {
        let (mut comm, mut config) = (null_mut(), Config::nonblocking());
        // SAFETY: the function writes a pointer, for which there is room, and reads the configuration before it returns. `size` of the
        // configuration says how many bytes it has.
        let code = unsafe { (library.init_rank)(&mut comm, ranks, *id, rank, &mut config) };
        let comm = Mutex::new((!comm.is_null()).then_some(Comm(comm)));
        let link = Link { library, comm, lost: OnceLock::new(), name, timeout, is_over: Arc::default() };
        match link.settle(Code(code), "connecting") {
            Ok(()) => Ok(link),
            Err(error) => {
                link.abort("it could not be connected");
                Err(error)
            }
        }
    }

    /// Calls NCCL with the object, while nobody else does.
    ///
    /// # Errors
    /// The reason why there is no object any more.
    fn with(&self, operation: &'static str, call: impl FnOnce(&Library, &Comm) -> Code) -> Result<Code> {
        match &*lock(&self.comm) {
            Some(comm) => Ok(call(self.library, comm)),
            None => Err(self.is_lost(operation)),
        }
    }

    fn is_lost(&self, operation: &'static str) -> Error {
        let cause = self.lost.get().map_or("NCCL gave it up", String::as_str);
        let remedy = "end this rank, or connect all ranks again";
        Error::refused(&self.name, operation, format_args!("the communicator was aborted: {cause}"), remedy)
    }

    /// NCCL's present state of the communicator.
    fn state(&self, operation: &'static str) -> Result<Code> {
        self.with(operation, state)
    }

    /// Waits until NCCL has done what a call began: until the work is on the stream, say.
    ///
    /// # Errors
    /// That of the call, or of an abort. After the timeout, the communicator is aborted, since NCCL takes no other call before this one is
    /// done.
    pub(super) fn settle(&self, answer: Code, operation: &'static str) -> Result<()> {
        let (start, mut pause, mut code) = (Instant::now(), FIRST_PAUSE, answer);
        while code == Code::IN_PROGRESS {
            let waited = start.elapsed();
            if waited >= self.timeout {
                self.abort(&format!("the other ranks did not take part within {:?}", self.timeout));
                return Err(self.is_lost(operation));
            }
            if waited < EAGER {
                std::thread::yield_now();
            } else {
                std::thread::sleep(pause);
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
            code = self.state(operation).inspect_err(|_| self.await_end())?;
        }
        if code.is_error() { Err(code.error(&self.name, operation)) } else { Ok(()) }
    }

    /// Waits until an abort of another thread is over, but not forever. Before, NCCL may still put the work of a call on the stream, and the
    /// memory of that work must not be used for anything else.
    fn await_end(&self) {
        let start = Instant::now();
        while !self.is_over.load(Acquire) && start.elapsed() < LONGEST_END {
            std::thread::sleep(LONGEST_PAUSE);
        }
    }

    /// Queues operations on a stream, all in one launch, and waits until they are there.
    ///
    /// # Errors
    /// As for [`settle`](Link::settle).
    ///
    /// # Safety
    /// The stream is alive and of the communicator's GPU. The memory of the operations stays allocated until the stream has done them, and
    /// the stream is ordered with all other uses of it.
    pub(super) unsafe fn launch(&self, operations: &[Operation], stream: *mut c_void) -> Result<()> {
        let name = match operations {
            [] => return Ok(()),
            [only] => only.name(),
            _ => "a group of collectives",
        };
        let answer = self.with(name, |library, comm| {
            let queue = |operation: &Operation| {
                // SAFETY: the object lives while its lock is held. The caller promises the rest.
                unsafe { operation.queue(library, comm.0, stream) }
            };
            match operations {
                [only] => queue(only),
                all => grouped(library, || all.iter().map(queue).find(|code| code.is_error())),
            }
        })?;
        self.settle(answer, name)
    }

    /// Registers memory, and returns NCCL's handle of the registration as a number.
    ///
    /// # Errors
    /// NCCL's answer.
    ///
    /// # Safety
    /// The memory is allocated on the communicator's GPU until it is [deregistered](Link::deregister) or the communicator is gone.
    pub(super) unsafe fn register(&self, address: u64, bytes: usize) -> Result<usize> {
        let (mut handle, operation) = (null_mut(), "registering memory");
        let code = self.with(operation, |library, comm| {
            // SAFETY: the object lives while its lock is held, the function writes a pointer, for which there is room, and the caller
            // promises that the memory is allocated.
            Code(unsafe { (library.register)(comm.0, address as *mut c_void, bytes, &mut handle) })
        })?;
        if code.is_error() { Err(code.error(&self.name, operation)) } else { Ok(handle as usize) }
    }

    /// Ends a registration, unless that of the whole communicator has ended it.
    ///
    /// # Safety
    /// [`register`](Link::register) returned the handle. This is called once, and no work uses the memory any more.
    pub(super) unsafe fn deregister(&self, handle: usize) {
        // A failure concerns NCCL's table alone.
        let _ = self.with("deregistering memory", |library, comm| {
            // SAFETY: the object lives while its lock is held, and the caller promises that the handle is its own and is given back once.
            Code(unsafe { (library.deregister)(comm.0, handle as *mut c_void) })
        });
    }

    /// NCCL's asynchronous error, or the reason of the abort.
    pub(super) fn failure(&self) -> Option<Error> {
        let operation = "a collective";
        match self.state(operation) {
            Ok(code) => code.is_error().then(|| code.error(&self.name, operation)),
            Err(lost) => Some(lost),
        }
    }

    /// Makes the calling thread wait for the work that is on `stream` now, while NCCL meets no error.
    ///
    /// # Errors
    /// NCCL's error, the cause of an abort, a failure of the driver, or the end of the time.
    pub(super) fn wait_for(&self, stream: &Cuda, timeout: Duration) -> Result<()> {
        self.wait_while(stream, timeout, || self.failure())?;
        self.failure().map_or(Ok(()), Err)
    }

    /// As [`wait_for`](Link::wait_for), whatever becomes of the communicator: other work may be on the stream too.
    ///
    /// # Errors
    /// A failure of the driver, or the end of the time.
    pub(super) fn wait_for_others(&self, stream: &Cuda) -> Result<()> {
        self.wait_while(stream, self.timeout, || None)
    }

    fn wait_while(&self, stream: &Cuda, timeout: Duration, failure: impl Fn() -> Option<Error>) -> Result<()> {
        let (start, mut pause) = (Instant::now(), FIRST_PAUSE);
        stream.0.make_current();
        let done = stream.stream().record_event(None)?;
        while !done.try_is_complete()? {
            if let Some(error) = failure() {
                return Err(error);
            }
            if start.elapsed() >= timeout {
                let detail = format_args!("the queued collectives are not done after {timeout:?}");
                let remedy = "see whether all ranks made the same calls, and `abort` if one ended";
                return Err(Error::refused(&self.name, "waiting", detail, remedy));
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
        Ok(())
    }

    /// Ends all work of the communicator here. The first cause is kept.
    pub(super) fn abort(&self, cause: &str) {
        let _ = self.lost.set(cause.to_string());
        self.end(None);
    }

    /// Gives the communicator up once its queued work is done.
    pub(super) fn close(&self) {
        let _ = self.lost.set("it was dropped".to_string());
        self.end(Some(self.timeout));
    }

    /// Takes the object and ends it on a thread of its own, because NCCL may wait for other ranks there. This thread waits for that, but
    /// not forever. The object first `finishes` what is queued, if there is a time for that. If that fails or takes longer, or without a
    /// time, all of its work ends at once.
    fn end(&self, finishes: Option<Duration>) {
        // Not in the `let` below, which would hold the lock.
        let taken = lock(&self.comm).take();
        // Another thread took it, and may not have ended it yet.
        let Some(comm) = taken else { return self.await_end() };
        let (library, is_over) = (self.library, self.is_over.clone());
        let (done, is_done) = mpsc::channel();
        let work = move || {
            end(library, comm, finishes);
            is_over.store(true, Release);
            let _ = done.send(());
        };
        // Without a thread the object stays, with its memory: a wait here could last forever.
        if std::thread::Builder::new().name("nccl end".to_string()).spawn(work).is_ok() {
            let longest = finishes.unwrap_or(Duration::ZERO).saturating_add(LONGEST_END);
            let _ = is_done.recv_timeout(longest);
        }
    }
}

/// NCCL's present state of a communicator.
fn state(library: &Library, comm: &Comm) -> Code {
    let mut state = 0;
    // SAFETY: a `Comm` is alive, and no other thread calls it, since it is borrowed from its one place. The function writes one `int`, for
    // which there is room.
    let code = Code(unsafe { (library.async_error)(comm.0, &mut state) });
    if code.is_error() { code } else { Code(state) }
}

/// Makes calls that NCCL launches together. Returns the first error.
fn grouped(library: &Library, calls: impl FnOnce() -> Option<Code>) -> Code {
    // SAFETY: the function takes no arguments. Its counterpart is called below, on the same thread.
    let start = Code(unsafe { (library.group_start)() });
    if start.is_error() {
        return start;
    }
    let failed = calls();
    // SAFETY: the group that ends here began above, on the same thread.
    let ended = Code(unsafe { (library.group_end)() });
    failed.unwrap_or(ended)
}

/// Ends a communicator. The object is not used again, even if NCCL answers with an error.
fn end(library: &Library, comm: Comm, finishes: Option<Duration>) {
    let is_finished = finishes.is_some_and(|timeout| is_finished(library, &comm, timeout));
    // SAFETY: the object is alive, because only this function frees it, and it owns it. No other thread calls it any more.
    let _ = unsafe { if is_finished { (library.destroy)(comm.0) } else { (library.abort)(comm.0) } };
}

/// Lets a communicator finish its work. Returns whether it did within `timeout`.
fn is_finished(library: &Library, comm: &Comm, timeout: Duration) -> bool {
    let start = Instant::now();
    // SAFETY: the caller owns the object, which is alive.
    let mut code = Code(unsafe { (library.finalize)(comm.0) });
    while code == Code::IN_PROGRESS && start.elapsed() < timeout {
        std::thread::sleep(LONGEST_PAUSE);
        code = state(library, comm);
    }
    code == Code::SUCCESS
}
