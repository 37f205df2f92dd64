//! The functions of NCCL, with the types of `nccl.h`.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::comm::{CUDA_ERROR, Call, Comm, IN_PROGRESS, INVALID_ARGUMENT, INVALID_USAGE, Kind, SUCCESS};
use crate::memory;
use crate::world::{World, lock};

/// A communicator as its users hold it: a reference count of [`Comm`].
type Raw = *const Comm;

#[repr(C)]
pub(crate) struct Id([u8; 128]);

#[repr(C)]
pub(crate) struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: i32,
}

/// A call in a group, with its communicator and stream.
type Grouped = (Arc<Comm>, usize, Call);

thread_local! {
    /// The calls of the thread's open group.
    static GROUP: RefCell<Option<Vec<Grouped>>> = const { RefCell::new(None) };
}

/// The communicator behind a pointer.
fn comm(raw: Raw) -> Arc<Comm> {
    // SAFETY: the caller passes a communicator of `ncclCommInitRankConfig` that was not freed, which owns one count.
    unsafe {
        Arc::increment_strong_count(raw);
        Arc::from_raw(raw)
    }
}

/// Makes a call, or adds it to the open group.
fn call(raw: Raw, stream: usize, call: Call) -> i32 {
    let comm = comm(raw);
    GROUP.with(|group| match &mut *group.borrow_mut() {
        Some(calls) => {
            calls.push((comm, stream, call));
            SUCCESS
        }
        None => comm.launch(&[call], stream),
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGetVersion(version: &mut i32) -> i32 {
    *version = 22809;
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGetUniqueId(id: &mut Id) -> i32 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    id.0 = [0xA5; 128];
    id.0[..8].copy_from_slice(&NEXT.fetch_add(1, SeqCst).to_ne_bytes());
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclCommInitRankConfig(comm: &mut Raw, ranks: i32, id: Id, rank: i32, config: &Config) -> i32 {
    let is_valid = config.magic == 0xcafe_beef && config.blocking == 0 && config.size == 20 && config.version >= 21400;
    if !is_valid || !(0..ranks).contains(&rank) {
        return INVALID_ARGUMENT;
    }
    *comm = Arc::into_raw(Arc::new(Comm::new(rank as usize, World::enter(&id.0, ranks as usize))));
    IN_PROGRESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclCommGetAsyncError(raw: Raw, error: &mut i32) -> i32 {
    let comm = comm(raw);
    *error = if comm.world.is_complete() { comm.state.load(SeqCst) } else { IN_PROGRESS };
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclCommFinalize(raw: Raw) -> i32 {
    comm(raw).state.load(SeqCst)
}

/// Ends the registrations, and takes back the count of the pointer.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclCommDestroy(raw: Raw) -> i32 {
    for address in lock(&comm(raw).registered).drain(..) {
        memory::deregister(address);
    }
    // SAFETY: the caller gives up the pointer, which owned one count.
    drop(unsafe { Arc::from_raw(raw) });
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclCommAbort(raw: Raw) -> i32 {
    let comm = comm(raw);
    comm.is_aborted.store(true, SeqCst);
    comm.world.wake();
    ncclCommDestroy(raw)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclCommRegister(raw: Raw, address: u64, bytes: usize, handle: &mut u64) -> i32 {
    *handle = address;
    if !memory::register(address, bytes) {
        return INVALID_ARGUMENT;
    }
    lock(&comm(raw).registered).push(address);
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclCommDeregister(raw: Raw, handle: u64) -> i32 {
    lock(&comm(raw).registered).retain(|address| *address != handle);
    if memory::deregister(handle) { SUCCESS } else { INVALID_USAGE }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclMemAlloc(address: &mut u64, bytes: usize) -> i32 {
    match memory::allocate(bytes) {
        Some(memory) => {
            *address = memory;
            SUCCESS
        }
        None => CUDA_ERROR,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclMemFree(address: u64) -> i32 {
    if memory::free(address) { SUCCESS } else { INVALID_USAGE }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGroupStart() -> i32 {
    GROUP.with(|group| if group.borrow_mut().replace(Vec::new()).is_some() { INVALID_USAGE } else { SUCCESS })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGroupEnd() -> i32 {
    let Some(calls) = GROUP.with(|group| group.borrow_mut().take()) else { return INVALID_USAGE };
    let Some((comm, stream, _)) = calls.first() else { return SUCCESS };
    let all: Vec<Call> = calls.iter().map(|(_, _, call)| *call).collect();
    comm.launch(&all, *stream)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclAllReduce(
    from: u64,
    to: u64,
    count: usize,
    dtype: i32,
    by: i32,
    raw: Raw,
    stream: usize,
) -> i32 {
    call(raw, stream, Call { kind: Kind::AllReduce(by), from, to, count, dtype })
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub(crate) extern "C" fn ncclReduce(
    from: u64,
    to: u64,
    count: usize,
    dtype: i32,
    by: i32,
    root: i32,
    raw: Raw,
    stream: usize,
) -> i32 {
    call(raw, stream, Call { kind: Kind::Reduce(by, root as usize), from, to, count, dtype })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclReduceScatter(
    from: u64,
    to: u64,
    count: usize,
    dtype: i32,
    by: i32,
    raw: Raw,
    stream: usize,
) -> i32 {
    call(raw, stream, Call { kind: Kind::ReduceScatter(by), from, to, count, dtype })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclAllGather(from: u64, to: u64, count: usize, dtype: i32, raw: Raw, stream: usize) -> i32 {
    call(raw, stream, Call { kind: Kind::AllGather, from, to, count, dtype })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclBroadcast(
    from: u64,
    to: u64,
    count: usize,
    dtype: i32,
    root: i32,
    raw: Raw,
    stream: usize,
) -> i32 {
    call(raw, stream, Call { kind: Kind::Broadcast(root as usize), from, to, count, dtype })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclSend(from: u64, count: usize, dtype: i32, to: i32, raw: Raw, stream: usize) -> i32 {
    call(raw, stream, Call { kind: Kind::Send(to as usize), from, to: 0, count, dtype })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclRecv(to: u64, count: usize, dtype: i32, from: i32, raw: Raw, stream: usize) -> i32 {
    call(raw, stream, Call { kind: Kind::Recv(from as usize), from: 0, to, count, dtype })
}

/// Lets registrations fail (1), or succeed again (0).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn madeup_nccl_refuse(refuses: i32) {
    memory::REFUSES.store(refuses != 0, SeqCst);
}
