//! Fills and copies, on streams and without.
//!
//! The stream does the work in each case. A copy from pageable host memory has read it when the call returns, and a copy to
//! pageable memory has written it. Pinned memory is read and written when the stream reaches the work. A captured copy reads and
//! writes all memory at each launch of the graph, as with CUDA.

use std::ffi::{c_uchar, c_uint, c_ushort};

use crate::answer::{Answer, Status, answer};
use crate::uses::Use;
use crate::work::{self, Copying, Fill, Memory, Work};
use crate::{capture, context, pinned, pointers, raw, streams};

/// The stream of calls without a stream.
const DEFAULT: usize = 0;

/// # Safety
/// There is memory of the device at each row when the stream reaches the work.
unsafe fn fill(fill: Fill, stream: usize) -> Answer {
    // SAFETY: the memory is there by this function's contract.
    unsafe { work::give(Work::Fill(fill), stream) }
}

/// A fill of `count` elements without gaps.
fn row(address: u64, element: &[u8], count: usize) -> Fill {
    rows(address, 0, element, count, 1)
}

fn rows(address: u64, pitch: usize, element: &[u8], width: usize, rows: usize) -> Fill {
    let mut value = [0; 4];
    value[..element.len()].copy_from_slice(element);
    Fill { address, pitch, value: u32::from_le_bytes(value), element: element.len() as u32, width, rows }
}

/// # Safety
/// `from` may be read, and there is memory of the device at `to` when the stream reaches the work.
unsafe fn upload(to: u64, from: *const u8, bytes: usize, stream: usize) -> Answer {
    context::require()?;
    // SAFETY: the caller allows to read `bytes` bytes now.
    let staged = unsafe { raw::read(from, bytes) };
    let used = Use::of(to, bytes);
    let task = move || {
        // SAFETY: the memory is there when the task runs, by this function's contract. The task owns the staged bytes.
        unsafe { raw::copy(staged.as_ptr() as u64, to, bytes) };
        drop(used);
    };
    streams::submit(stream, task).map(drop)
}

/// # Safety
/// `to` may be written until this function returns, and there is memory of the device at `from` when the stream reaches the work.
unsafe fn download(to: *mut u8, from: u64, bytes: usize, stream: usize) -> Answer {
    context::require()?;
    let to = to as u64;
    // SAFETY: the device's memory is there when the task runs. The host's memory is there until this function returns, which is
    // after the task.
    streams::submit(stream, move || unsafe { raw::copy(from, to, bytes) })?.wait();
    Ok(())
}

/// Whether memory of the host is read and written at once, since the driver did not allocate it.
fn is_pageable(address: u64, memory: Memory) -> bool {
    match memory {
        Memory::Host => !pinned::holds(address),
        Memory::Device => false,
        Memory::Unified => !pointers::is_late(address),
    }
}

/// # Safety
/// There is memory at both addresses, and it stays until the stream reaches the work, except for pageable memory. If the stream is
/// captured, it stays in each case, also at each launch of the graph.
unsafe fn copy(copy: Copying, stream: usize) -> Answer {
    context::require()?;
    let (to, from, bytes) = (copy.to, copy.from, copy.bytes);
    if capture::record(&*streams::find(stream)?, &Work::Copy(copy))? {
        return Ok(());
    }
    // SAFETY: the memory is there by this function's contract, for each of the three functions as long as it needs the memory.
    unsafe {
        match (is_pageable(from, copy.kinds.0), is_pageable(to, copy.kinds.1)) {
            (true, _) => upload(to, from as *const u8, bytes, stream),
            (_, true) => download(to as *mut u8, from, bytes, stream),
            (false, false) => work::give(Work::Copy(copy), stream),
        }
    }
}

/// Exports fills of elements of one type, with a stream and without.
macro_rules! fills {
    ($($name:ident, $on_stream:ident, $element:ty;)*) => {$(
        /// # Safety
        /// There is memory of the device for `count` elements.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $on_stream(address: u64, element: $element, count: usize, stream: usize) -> Status {
            // SAFETY: the caller promises that the memory is there, also when the stream reaches the work.
            answer(stringify!($on_stream), || unsafe { fill(row(address, &element.to_le_bytes(), count), stream) })
        }

        /// # Safety
        /// There is memory of the device for `count` elements.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(address: u64, element: $element, count: usize) -> Status {
            // SAFETY: the caller promises that the memory is there, and does not free it before the work of the default stream.
            answer(stringify!($name), || unsafe { fill(row(address, &element.to_le_bytes(), count), DEFAULT) })
        }
    )*};
}

fills! {
    cuMemsetD8_v2, cuMemsetD8Async, c_uchar;
    cuMemsetD16_v2, cuMemsetD16Async, c_ushort;
    cuMemsetD32_v2, cuMemsetD32Async, c_uint;
}

/// Exports fills of rows, for elements of one type.
macro_rules! row_fills {
    ($($name:ident, $element:ty;)*) => {$(
        /// # Safety
        /// There is memory of the device for `rows_of` rows, `pitch` bytes apart, of `width` elements each.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            address: u64,
            pitch: usize,
            element: $element,
            width: usize,
            rows_of: usize,
            stream: usize,
        ) -> Status {
            let all = rows(address, pitch, &element.to_le_bytes(), width, rows_of);
            // SAFETY: the caller promises that the memory is there, also when the stream reaches the work.
            answer(stringify!($name), || unsafe { fill(all, stream) })
        }
    )*};
}

row_fills! {
    cuMemsetD2D8Async, c_uchar;
    cuMemsetD2D32Async, c_uint;
}

/// # Safety
/// `from` may be read, and there is memory of the device at `to`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: usize, stream: usize) -> Status {
    // SAFETY: the caller promises both, the second also for the time when the stream reaches the work. Pinned memory stays until
    // then, since its free waits for all work.
    answer("cuMemcpyHtoDAsync_v2", || unsafe {
        let kinds = (Memory::Host, Memory::Device);
        copy(Copying { to, from: from as u64, bytes, kinds }, stream)
    })
}

/// # Safety
/// `from` may be read, and there is memory of the device at `to`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const u8, bytes: usize) -> Status {
    // SAFETY: the caller promises both, and does not free the memory before the work of the default stream.
    answer("cuMemcpyHtoD_v2", || unsafe { upload(to, from, bytes, DEFAULT) })
}

/// # Safety
/// `to` may be written, and there is memory of the device at `from`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, bytes: usize, stream: usize) -> Status {
    // SAFETY: the caller promises both, the second also for the time when the stream reaches the work, which is before this
    // function returns. Pinned memory stays until then, since its free waits for all work.
    answer("cuMemcpyDtoHAsync_v2", || unsafe {
        let kinds = (Memory::Device, Memory::Host);
        copy(Copying { to: to as u64, from, bytes, kinds }, stream)
    })
}

/// # Safety
/// `to` may be written, and there is memory of the device at `from`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut u8, from: u64, bytes: usize) -> Status {
    // SAFETY: the caller promises both, and the copy is done when this function returns.
    answer("cuMemcpyDtoH_v2", || unsafe { download(to, from, bytes, DEFAULT) })
}

/// # Safety
/// There is memory of the device at both addresses.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) -> Status {
    // SAFETY: the caller promises that the memory is there, also when the stream reaches the work.
    answer("cuMemcpyDtoDAsync_v2", || unsafe { copy(Copying::on_device(to, from, bytes), stream) })
}

/// # Safety
/// There is memory of the device at both addresses.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> Status {
    // SAFETY: the caller promises that the memory is there, and does not free it before the work of the default stream.
    answer("cuMemcpyDtoD_v2", || unsafe { copy(Copying::on_device(to, from, bytes), DEFAULT) })
}

/// Copies between any two addresses, and finds out of which kind they are.
///
/// # Safety
/// `from` may be read and `to` may be written: memory of the device or pinned memory, also when the stream reaches the work.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize) -> Status {
    // SAFETY: the caller promises both, for each kind of memory as long as that kind is used.
    answer("cuMemcpyAsync", || unsafe {
        let kinds = (Memory::Unified, Memory::Unified);
        copy(Copying { to, from, bytes, kinds }, stream)
    })
}

/// Copies between contexts. A capture cannot contain this.
///
/// # Safety
/// There is memory of the device at both addresses.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: usize,
    from: u64,
    from_context: usize,
    bytes: usize,
    stream: usize,
) -> Status {
    // SAFETY: the caller promises that the memory is there, also when the stream reaches the work.
    answer("cuMemcpyPeerAsync", || unsafe {
        context::known(to_context)?;
        context::known(from_context)?;
        capture::refuse(&*streams::find(stream)?)?;
        copy(Copying::on_device(to, from, bytes), stream)
    })
}
