//! Modules, whatever their code, and the one kernel that each of them has: `late_copy(to, from, bytes, milliseconds)`, of four
//! 64-bit numbers, waits as a long kernel computes, and copies then.

use std::ffi::{c_uint, c_void};
use std::time::Duration;

use crate::answer::{Answer, Out, Status, Text, answer};
use crate::uses::Use;
use crate::{context, raw, streams};

const MODULE: usize = 0xB0_0000;
const LATE_COPY: usize = 0xB0_0010;

fn known(handle: usize, expected: usize) -> Answer {
    if handle == expected { Ok(()) } else { Err(Status::INVALID_HANDLE) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleLoadData(module: Out<usize>, _image: *const c_void) -> Status {
    answer("cuModuleLoadData", || context::require().and_then(|()| module.put(MODULE)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleUnload(module: usize) -> Status {
    answer("cuModuleUnload", || known(module, MODULE))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleGetFunction(function: Out<usize>, module: usize, name: Text) -> Status {
    answer("cuModuleGetFunction", || {
        known(module, MODULE)?;
        match name.read() {
            Some("late_copy") => function.put(LATE_COPY),
            _ => Err(Status::NOT_FOUND),
        }
    })
}

/// # Safety
/// `arguments` are the places of four 64-bit numbers, of which the first two are places of memory of as many bytes as the third
/// says, also when the stream comes to it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    _grid_x: c_uint,
    _grid_y: c_uint,
    _grid_z: c_uint,
    _block_x: c_uint,
    _block_y: c_uint,
    _block_z: c_uint,
    _shared: c_uint,
    stream: usize,
    arguments: *const *const u64,
    _extra: *const c_void,
) -> Status {
    answer("cuLaunchKernel", || {
        known(function, LATE_COPY)?;
        if arguments.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller gives the places of four 64-bit numbers.
        let [to, from, bytes, milliseconds] = [0, 1, 2, 3].map(|number| unsafe { **arguments.add(number) });
        let uses = [Use::of(to, bytes as usize), Use::of(from, bytes as usize)];
        let task = move || {
            std::thread::sleep(Duration::from_millis(milliseconds));
            // SAFETY: there is memory at both by this function's contract, and none of it goes while the uses are noted.
            unsafe { raw::copy(from, to, bytes as usize) };
            drop(uses);
        };
        streams::submit(stream, task).map(drop)
    })
}
