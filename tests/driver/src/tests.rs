//! Tests of the behaviour that programs rely on: work is late and in order, wrong orders show, and mistakes get the right status.

mod captures;
mod graphs;
mod user_objects;

use std::sync::mpsc::{Sender, channel};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::answer::{Out, Status, Text};
use crate::memory::GARBAGE;
use crate::{context, device, events, memory, own, pages, pinned, pointers, stream_calls, streams, transfers};

const BYTES: usize = 1 << 16;
const NON_BLOCKING: u32 = 1;
/// Longer than a thread mostly takes to go on. If a wait is missing, a test fails because of this delay.
const LATE: u64 = 60;

fn get<T: Default>(call: impl FnOnce(Out<T>) -> Status) -> T {
    let mut value = T::default();
    assert_eq!(call(Out::of(&mut value)), Status::SUCCESS);
    value
}

/// Waiting for all work ends all captures of the process, so tests of one kind exclude tests of the other.
static WAITS_FOR_ALL: RwLock<()> = RwLock::new(());

fn without_waiting_for_all() -> RwLockReadGuard<'static, ()> {
    WAITS_FOR_ALL.read().unwrap_or_else(PoisonError::into_inner)
}

fn waiting_for_all() -> RwLockWriteGuard<'static, ()> {
    WAITS_FOR_ALL.write().unwrap_or_else(PoisonError::into_inner)
}

fn begin() {
    assert_eq!(device::cuInit(0), Status::SUCCESS);
    assert_eq!(context::cuCtxSetCurrent(context::CONTEXT), Status::SUCCESS);
}

fn stream(flags: u32) -> usize {
    get(|stream| stream_calls::cuStreamCreate(stream, flags))
}

fn allocate(stream: usize) -> u64 {
    get(|address| memory::cuMemAllocAsync(address, BYTES, stream))
}

fn fill(address: u64, byte: u8, stream: usize) {
    // SAFETY: the tests allocate the memory that they fill, and free it on the same stream or behind it.
    assert_eq!(unsafe { transfers::cuMemsetD8Async(address, byte, BYTES, stream) }, Status::SUCCESS);
}

fn copy(from: u64, to: u64, stream: usize) {
    // SAFETY: the tests allocate the memory that they copy, and free neither side before the stream is done.
    assert_eq!(unsafe { transfers::cuMemcpyDtoDAsync_v2(to, from, BYTES, stream) }, Status::SUCCESS);
}

/// The byte at the address once the stream is done, if all bytes there are the same.
fn bytes(address: u64, stream: usize) -> Option<u8> {
    let mut bytes = vec![0; BYTES];
    // SAFETY: there are as many bytes on the host as at the address. Freed memory there still belongs to the device.
    let answer = unsafe { transfers::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr(), address, BYTES, stream) };
    assert_eq!(answer, Status::SUCCESS);
    bytes.iter().all(|byte| *byte == bytes[0]).then_some(bytes[0])
}

fn delay(stream: usize) {
    assert_eq!(own::madeup_delay(stream, LATE), Status::SUCCESS);
}

/// Stops a stream until the returned value is dropped.
fn hold(stream: usize) -> Sender<()> {
    let (held, goes_on) = channel::<()>();
    let wait = move || {
        let _ = goes_on.recv();
    };
    assert!(streams::submit(stream, wait).is_ok());
    held
}

#[test]
fn work_is_done_later_and_in_order() {
    begin();
    let (here, there) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let memory = allocate(here);
    assert_eq!(bytes(memory, here), Some(GARBAGE));
    let held = hold(here);
    fill(memory, 7, here);
    assert_eq!(stream_calls::cuStreamQuery(here), Status::NOT_READY);
    assert_eq!(bytes(memory, there), Some(GARBAGE), "another stream does not wait");
    drop(held);
    assert_eq!(bytes(memory, here), Some(7));
    assert_eq!(stream_calls::cuStreamQuery(here), Status::SUCCESS);
}

#[test]
fn an_event_orders_two_streams_and_a_missing_one_shows() {
    begin();
    let (here, there) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let event = get(|event| events::cuEventCreate(event, 0));
    let (memory, early, ordered) = (allocate(here), allocate(there), allocate(there));
    assert_eq!(stream_calls::cuStreamSynchronize(here), Status::SUCCESS);
    let held = hold(here);
    fill(memory, 9, here);
    assert_eq!(events::cuEventRecord(event, here), Status::SUCCESS);
    copy(memory, early, there);
    assert_eq!(bytes(early, there), Some(GARBAGE));
    assert_eq!(stream_calls::cuStreamWaitEvent(there, event, 0), Status::SUCCESS);
    assert_eq!(events::cuEventQuery(event), Status::NOT_READY);
    copy(memory, ordered, there);
    drop(held);
    assert_eq!(bytes(ordered, there), Some(9));
    assert_eq!(events::cuEventQuery(event), Status::SUCCESS);
    assert_eq!(events::cuEventDestroy_v2(event), Status::SUCCESS);
    assert_eq!(events::cuEventQuery(event), Status::INVALID_HANDLE);
}

#[test]
fn freed_memory_is_poisoned_in_order_and_freed_once() {
    begin();
    let here = stream(NON_BLOCKING);
    let memory = allocate(here);
    fill(memory, 3, here);
    assert_eq!(bytes(memory, here), Some(3));
    let held = hold(here);
    assert_eq!(memory::cuMemFreeAsync(memory, here), Status::SUCCESS);
    assert_eq!(memory::cuMemFreeAsync(memory, here), Status::INVALID_VALUE);
    assert_eq!(memory::cuMemFree_v2(memory), Status::INVALID_VALUE);
    assert_eq!(memory::cuMemFreeAsync(memory + 512, here), Status::INVALID_VALUE);
    assert_eq!(bytes(memory, stream(NON_BLOCKING)), Some(3), "the stream has not come to the free");
    drop(held);
    assert_ne!(bytes(memory, here), Some(3));
}

#[test]
fn a_free_without_a_stream_waits_for_all_work() {
    begin();
    let (here, there) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let memory = get(|address| memory::cuMemAlloc_v2(address, BYTES));
    let copied = allocate(here);
    fill(memory, 4, here);
    delay(here);
    copy(memory, copied, here);
    assert_eq!(memory::cuMemFree_v2(memory), Status::SUCCESS);
    assert_eq!(bytes(copied, there), Some(4));
}

#[test]
fn the_legacy_stream_and_blocking_ones_wait_for_each_other() {
    let _others = waiting_for_all();
    begin();
    let (blocking, other) = (stream(0), stream(NON_BLOCKING));
    let (memory, elsewhere) = (allocate(blocking), allocate(other));
    assert_eq!(context::cuCtxSynchronize(), Status::SUCCESS);
    delay(blocking);
    fill(memory, 5, blocking);
    assert_eq!(bytes(memory, 0), Some(5));
    delay(1);
    fill(memory, 6, 0);
    assert_eq!(bytes(memory, 2), Some(6));
    let _held = hold(other);
    fill(elsewhere, 8, other);
    assert_eq!(bytes(elsewhere, 0), Some(GARBAGE), "a stream that is not blocking is left alone");
}

#[test]
fn the_per_thread_stream_is_another_one_on_each_thread() {
    let id = || {
        begin();
        get(|id| stream_calls::cuStreamGetId(2, id))
    };
    let mine = id();
    assert_eq!(mine, id());
    assert_ne!(mine, std::thread::spawn(id).join().unwrap());
}

#[test]
fn a_handle_comes_again_and_is_another_stream() {
    // Other tests make streams meanwhile, and one of them may get the handle first.
    let comes_again = || {
        let old = stream(NON_BLOCKING);
        let id: u64 = get(|id| stream_calls::cuStreamGetId(old, id));
        assert_eq!(stream_calls::cuStreamDestroy_v2(old), Status::SUCCESS);
        let new = stream(NON_BLOCKING);
        assert_ne!(id, get(|id| stream_calls::cuStreamGetId(new, id)));
        old == new
    };
    begin();
    assert!((0..100).any(|_| comes_again()));
    assert_eq!(stream_calls::cuStreamDestroy_v2(12345), Status::INVALID_HANDLE);
}

#[test]
fn work_of_a_destroyed_stream_is_done() {
    let _others = waiting_for_all();
    begin();
    let (here, there) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let memory = allocate(there);
    assert_eq!(stream_calls::cuStreamSynchronize(there), Status::SUCCESS);
    delay(here);
    fill(memory, 2, here);
    assert_eq!(stream_calls::cuStreamDestroy_v2(here), Status::SUCCESS);
    assert_eq!(context::cuCtxSynchronize(), Status::SUCCESS);
    assert_eq!(bytes(memory, there), Some(2));
}

/// Whether the system can read a byte there.
fn is_accessible(address: u64) -> bool {
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors. The system itself checks whether the byte may be read, and returns an error if
    // not.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let written = libc::write(ends[1], address as *const libc::c_void, 1);
        ends.iter().for_each(|end| assert_eq!(libc::close(*end), 0));
        written == 1
    }
}

#[test]
fn pages_are_there_while_they_are_mapped() {
    const PAGE: usize = 2 << 20;
    begin();
    let address = get(|address| pages::cuMemAddressReserve(address, 4 * PAGE, 0, 0, 0));
    let piece = get(|piece| pages::cuMemCreate(piece, PAGE, 0, 0));
    assert_eq!(pages::cuMemMap(address, PAGE, 0, piece, 0), Status::SUCCESS);
    assert_eq!(pages::cuMemMap(address, PAGE, 0, piece, 0), Status::INVALID_VALUE, "there is one already");
    assert_eq!(pages::cuMemMap(address + 4 * PAGE as u64, PAGE, 0, piece, 0), Status::INVALID_VALUE, "not reserved");
    assert_eq!(pages::cuMemRelease(piece), Status::SUCCESS);
    assert_eq!(pages::cuMemRelease(piece), Status::INVALID_VALUE);
    assert!(!is_accessible(address));
    assert_eq!(pages::cuMemSetAccess(address, PAGE, 0, 1), Status::SUCCESS);
    assert!(is_accessible(address) && !is_accessible(address + PAGE as u64));
    assert_eq!(bytes(address, 2), Some(GARBAGE));
    fill(address, 1, 2);
    assert_eq!(bytes(address, 2), Some(1));
    // SAFETY: the work above is done.
    unsafe {
        assert_eq!(pages::cuMemUnmap(address, PAGE / 2), Status::INVALID_VALUE, "half a piece");
        assert_eq!(pages::cuMemUnmap(address, PAGE), Status::SUCCESS);
    }
    assert!(!is_accessible(address));
}

#[test]
fn addresses_are_known_by_what_lies_there() {
    begin();
    let (memory, mut start) = (allocate(2), 0);
    let mut size = 0;
    let range = |start: &mut u64, size: &mut usize, address| {
        pointers::cuMemGetAddressRange_v2(Out::of(start), Out::of(size), address)
    };
    assert_eq!(range(&mut start, &mut size, memory + 100), Status::SUCCESS);
    assert_eq!((start, size), (memory, BYTES));
    let host = &raw const start as u64;
    assert_eq!(range(&mut start, &mut size, host), Status::INVALID_VALUE);
}

#[test]
fn pinned_memory_is_read_late_and_other_memory_at_once() {
    begin();
    let here = stream(NON_BLOCKING);
    let (late, early) = (allocate(here), allocate(here));
    let mut place = std::ptr::null_mut();
    assert_eq!(pinned::cuMemHostAlloc(Out::of(&mut place), BYTES, 0), Status::SUCCESS);
    let mut own = vec![0; BYTES];
    let held = hold(here);
    // SAFETY: there are as many bytes at all four addresses, and the work is done before any of them is freed.
    unsafe {
        assert_eq!(transfers::cuMemcpyHtoDAsync_v2(late, place, BYTES, here), Status::SUCCESS);
        assert_eq!(transfers::cuMemcpyHtoDAsync_v2(early, own.as_ptr(), BYTES, here), Status::SUCCESS);
        place.write_bytes(7, BYTES);
        own.fill(7);
        drop(held);
        assert_eq!((bytes(late, here), bytes(early, here)), (Some(7), Some(0)));
        assert_eq!(pinned::cuMemFreeHost(place), Status::SUCCESS);
        assert_eq!(pinned::cuMemFreeHost(place), Status::INVALID_VALUE);
    }
}

#[test]
fn more_than_the_device_has_is_refused() {
    begin();
    let mut address = 0;
    let more = crate::arena::capacity() as usize + 1;
    assert_eq!(memory::cuMemAllocAsync(Out::of(&mut address), more, 2), Status::OUT_OF_MEMORY);
    assert_eq!(memory::cuMemAlloc_v2(Out::of(&mut address), usize::MAX), Status::OUT_OF_MEMORY);
    assert_eq!(address, 0);
}

#[test]
fn calls_are_counted_and_need_a_context() {
    assert_eq!(device::cuInit(0), Status::SUCCESS);
    let count = || own::madeup_calls(Text::of(c"cuCtxGetStreamPriorityRange"));
    let (before, mut least) = (count(), 0);
    let ask = |place: &mut i32| context::cuCtxGetStreamPriorityRange(Out::of(place), Out::of(&mut 0));
    assert_eq!(ask(&mut least), Status::INVALID_CONTEXT);
    begin();
    assert_eq!(ask(&mut least), Status::SUCCESS);
    assert_eq!(count(), before + 2);
    assert_eq!(own::madeup_calls(Text::of(c"cuNothing")), 0);
}

#[test]
fn a_panic_stays_inside() {
    let status = crate::answer::answer("a panic", || panic!("on purpose"));
    assert_eq!(status, Status::UNKNOWN);
    begin();
    let here = stream(NON_BLOCKING);
    assert!(streams::submit(here, || panic!("on purpose")).is_ok());
    assert_eq!(stream_calls::cuStreamSynchronize(here), Status::SUCCESS);
}

#[test]
fn calls_fail_on_purpose() {
    begin();
    let call = || {
        let mut uuid = [0; 16];
        device::cuDeviceGetUuid_v2(Out::of(&mut uuid), 0) == Status::SUCCESS
    };
    let fail = |after, times| {
        let name = Text::of(c"cuDeviceGetUuid_v2");
        assert_eq!(own::madeup_fail(name, after, times, Status::UNKNOWN.0), Status::SUCCESS);
    };
    fail(1, 2);
    assert_eq!([call(), call(), call(), call()], [true, false, false, true]);
    fail(0, u64::MAX);
    assert!((0..100).all(|_| !call()));
    fail(0, 0);
    assert!(call());
}
