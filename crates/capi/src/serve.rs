//! Allocates bytes, frees them by their address, and notes uses on other streams.

use gpucache::{Error, Result};
use gpucache_engine::cache::Block;
use gpucache_engine::device::{Handle, Stream, process_exits};
use gpucache_engine::record::Request;

use crate::caller;
use crate::devices::{HOST, default_stream};
use crate::shared::Inside;
use crate::streams::KnownStreams;
use crate::usage::Usage;
use crate::{captures, forks, helpers, pools};

/// Allocations have addresses of at most so many bits.
const ADDRESS_BITS: u32 = 48;

/// Allocates `bytes` bytes on a device, for use on a stream: -1 is the host, other numbers are GPUs. `stream` is a handle of the driver, 0
/// for the default stream; the host ignores it. The memory comes from the thread's innermost scope. Returns its address; 0 for no bytes.
///
/// # Errors
/// If no memory is left ([`Error::is_out_of_memory`]), if there is no such device, if the stream is of another GPU; a failure of the device.
/// The stream must exist: a driver may end a process that passes it the handle of a destroyed stream.
///
/// ```
/// let address = gpucache_capi::allocate(1 << 20, -1, 0)?;
/// assert!(gpucache_capi::allocate(0, -1, 0)? == 0);
/// gpucache_capi::free(address)?;
/// # Ok::<(), gpucache::Error>(())
/// ```
#[inline]
pub fn allocate(bytes: usize, device: i32, stream: usize) -> Result<u64> {
    if bytes == 0 {
        return default_stream(device).map(|_| 0);
    }
    if captures::is_any()
        && let Some(served) = pools::allocate(bytes, device, stream)
    {
        return served
            .map_err(|error| refused(Block::refused(error, &Request::of_bytes(&[bytes])), device))
            .and_then(noted);
    }
    let served = match caller::mine() {
        Some(caller) => caller.call(|inside| {
            if caller::is_own() && inside.scopes.count() == 0 {
                helpers::note_last(caller);
            }
            take(inside, bytes, device, stream)
        }),
        // The thread is about to end, or works in the name of a caller already.
        None => KnownStreams::default().find(device, stream, 0).and_then(|stream| find_outside(stream, bytes)),
    };
    match served {
        Ok(block) => noted(block),
        Err(error) => Err(refused(error, device)),
    }
}

#[inline]
fn take(inside: &mut Inside, bytes: usize, device: i32, handle: usize) -> Result<Block> {
    inside.scopes.follow_auto();
    let entry = inside.scopes.made();
    let stream = inside.streams.find(device, handle, entry)?;
    match Block::planned(stream, &[bytes], bytes) {
        Some(block) => Ok(block),
        None if inside.scopes.is_outside() => find_outside(stream, bytes),
        None => find(stream, bytes, Block::allocate),
    }
}

/// Memory of no scope. It is of the range, whose pages stay until all work that the device has at the free is done. The driver's own free
/// waits for one stream alone.
fn find_outside(stream: &Stream, bytes: usize) -> Result<Block> {
    find(stream, bytes, Block::of_no_scope)
}

#[inline(never)]
fn find(stream: &Stream, bytes: usize, allocate: fn(&Stream, &Request<'_>) -> Result<Block>) -> Result<Block> {
    let dims = [bytes];
    let request = Request::of_bytes(&dims);
    let found = captures::relaxed(|| allocate(stream, &request));
    found.map_err(|error| Block::refused(error, &request))
}

/// Keeps a block under its address.
#[inline]
fn noted(block: Block) -> Result<u64> {
    Usage::allocated(&block);
    block.keep_by_address().map_err(|block| {
        Usage::freed(&block);
        without_place(block.address())
    })
}

/// The error for memory whose address the table of allocations does not take.
#[cold]
fn without_place(address: u64) -> Error {
    let (reason, remedy) = match () {
        () if address >> ADDRESS_BITS != 0 => {
            ("it has more than 48 bits", "use a device whose addresses have at most 48 bits")
        }
        () if base_address(address).is_some() => {
            ("another allocation of gpucache has it", "please report this as a defect")
        }
        () => ("the host has no memory left for the table of allocations", "free memory of the host"),
    };
    Error::unavailable(format_args!("the address {address:#x}, which the device gave"), reason, remedy)
}

#[cold]
fn refused(error: Error, device: i32) -> Error {
    if error.is_shortage() {
        crate::limits::count_out_of_memory(device);
    }
    error
}

/// Frees memory that [`allocate`] returned, on any thread. Later work of the stream for which it was allocated may use it at once.
///
/// # Errors
/// If nothing is allocated at this address. Address 0 is ignored.
///
/// ```
/// let address = gpucache_capi::allocate(4096, -1, 0)?;
/// gpucache_capi::free(address)?;
/// assert!(gpucache_capi::free(address).is_err()); // a second time
/// # Ok::<(), gpucache::Error>(())
/// ```
#[inline]
pub fn free(address: u64) -> Result<()> {
    let Some(block) = Block::take_at(address) else {
        return if address == 0 { Ok(()) } else { Err(unknown(address)) };
    };
    Usage::freed(&block);
    if process_exits() || forks::is_of_parent(block.stream()) {
        // The driver may be gone already, or works for the parent alone.
        std::mem::forget(block);
        return Ok(());
    }
    let Some(block) = pools::kept_for_capture(block) else { return Ok(()) };
    let mut block = Some(block);
    let mut give_back = || captures::relaxed(|| drop(block.take()));
    // The request of another helper may wait for this block. The block then goes back like a block that an unrelated thread drops.
    if caller::mine().and_then(|caller| caller.call_soon(|_| give_back())).is_none() {
        give_back();
    }
    Ok(())
}

/// Notes that work on another stream uses memory. After it is freed, its next user waits for the work that is on that stream by then.
///
/// # Errors
/// If no allocation begins at this address. Address 0 is ignored. The stream must exist, as for [`allocate`].
///
/// ```
/// let address = gpucache_capi::allocate(4096, -1, 0)?;
/// gpucache_capi::record_stream(address, 0)?;
/// gpucache_capi::free(address)?;
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn record_stream(address: u64, stream: usize) -> Result<()> {
    if address == 0 {
        return Ok(());
    }
    let of = |block: &Block| (Handle::device_of(block.stream()), forks::is_of_parent(block.stream()));
    let (device, is_of_parent) = Block::with_at(address, of).ok_or_else(|| unknown_use(address))?;
    if is_of_parent {
        return Ok(());
    }
    let device = device.map_or(HOST, |ordinal| ordinal as i32);
    let note = |streams: &mut KnownStreams, entry| -> Result<()> {
        let stream = streams.find_user(device, stream, entry)?;
        let note = |block: &Block| {
            // A graph's memory has a queue number of its own.
            if block.stream().queue() != stream.queue() && !block.stream().is_reserved_on(&stream) {
                Handle::keeping_current(|| block.used_by(&stream));
            }
        };
        Block::with_at(address, note).ok_or_else(|| unknown_use(address))
    };
    // As for `free`: the request of another helper may wait for this block.
    let noted =
        caller::mine().and_then(|caller| caller.call_soon(|inside| note(&mut inside.streams, inside.scopes.made())));
    noted.unwrap_or_else(|| note(&mut KnownStreams::default(), 0))
}

/// The address and the bytes of the allocation in which `address` lies, if there is one.
///
/// ```
/// let address = gpucache_capi::allocate(4096, -1, 0)?;
/// assert_eq!(gpucache_capi::base_address(address + 100), Some((address, 4096)));
/// gpucache_capi::free(address)?;
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn base_address(address: u64) -> Option<(u64, usize)> {
    Block::around(address)
}

fn unknown(address: u64) -> Error {
    Error::unavailable(
        format_args!("the address {address:#x}"),
        "nothing is allocated there",
        "pass an address that gpucache returned, and free it once",
    )
}

fn unknown_use(address: u64) -> Error {
    Error::unavailable(
        format_args!("the address {address:#x}"),
        "no allocation begins there",
        "record a use by the address that gpucache returned, before the memory is freed",
    )
}
