//! Modules, whatever their code, and the three kernels that each of them has. They are the kernels of `gpucache_tests::gpu`, which
//! compiles them for a GPU. Each kernel first waits.
//!
//! | kernel | arguments |
//! |---|---|
//! | `hold` | nanoseconds (64 bits) |
//! | `fill` | address, value (32 bits), elements (32 bits), nanoseconds |
//! | `add` | address of the sums, address of the inputs, value (32 bits), elements (32 bits), nanoseconds |

use std::ffi::{c_uint, c_void};
use std::time::Duration;

use crate::answer::{Answer, Out, Status, Text, answer};
use crate::uses::Use;
use crate::{context, raw, streams};

const MODULE: usize = 0xB0_0000;
const HOLD: usize = 0xB0_0010;
const FILL: usize = 0xB0_0020;
const ADD: usize = 0xB0_0030;

fn module(handle: usize) -> Answer {
    if handle == MODULE { Ok(()) } else { Err(Status::INVALID_HANDLE) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleLoadData(module: Out<usize>, _image: *const c_void) -> Status {
    answer("cuModuleLoadData", || context::require().and_then(|()| module.put(MODULE)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleUnload(handle: usize) -> Status {
    answer("cuModuleUnload", || module(handle))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleGetFunction(function: Out<usize>, handle: usize, name: Text) -> Status {
    answer("cuModuleGetFunction", || {
        module(handle)?;
        match name.read() {
            Some("hold") => function.put(HOLD),
            Some("fill") => function.put(FILL),
            Some("add") => function.put(ADD),
            _ => Err(Status::NOT_FOUND),
        }
    })
}

/// The places of a kernel's arguments.
///
/// Invariant: there are as many as the kernel takes, and each is valid for a read of that argument's type.
struct Arguments(*const *const c_void);

impl Arguments {
    /// # Safety
    /// The kernel has an argument of this number and type.
    unsafe fn get<T: Copy>(&self, number: usize) -> T {
        // SAFETY: by this function's contract there is such an argument, and by the type's invariant its place is valid for a read.
        unsafe { (*self.0.add(number)).cast::<T>().read_unaligned() }
    }
}

fn wait(nanoseconds: u64) {
    if nanoseconds > 0 {
        std::thread::sleep(Duration::from_nanos(nanoseconds));
    }
}

fn hold(stream: usize, arguments: &Arguments) -> Answer {
    // SAFETY: the kernel takes one number of 64 bits.
    let nanoseconds: u64 = unsafe { arguments.get(0) };
    streams::submit(stream, move || wait(nanoseconds)).map(drop)
}

/// # Safety
/// There is memory for the elements at the address when the stream reaches this work.
unsafe fn fill(stream: usize, arguments: &Arguments) -> Answer {
    // SAFETY: these are the types of the kernel's arguments.
    let (to, value, len, nanoseconds): (u64, u32, u32, u64) =
        unsafe { (arguments.get(0), arguments.get(1), arguments.get(2), arguments.get(3)) };
    let bytes = 4 * len as usize;
    let used = Use::of(to, bytes);
    let task = move || {
        wait(nanoseconds);
        // SAFETY: there is memory by this function's contract. It does not go while its use is noted.
        unsafe { raw::fill(to, &value.to_ne_bytes(), bytes) };
        drop(used);
    };
    streams::submit(stream, task).map(drop)
}

/// # Safety
/// There is memory for the elements at both addresses when the stream reaches this work.
unsafe fn add(stream: usize, arguments: &Arguments) -> Answer {
    // SAFETY: these are the types of the kernel's arguments.
    let (to, from, value, len, nanoseconds): (u64, u64, u32, u32, u64) =
        unsafe { (arguments.get(0), arguments.get(1), arguments.get(2), arguments.get(3), arguments.get(4)) };
    let len = len as usize;
    let used = [Use::of(to, 4 * len), Use::of(from, 4 * len)];
    let task = move || {
        wait(nanoseconds);
        // SAFETY: there is memory at both addresses by this function's contract. None of it goes while the uses are noted.
        unsafe { raw::add(from, to, value, len) };
        drop(used);
    };
    streams::submit(stream, task).map(drop)
}

/// # Safety
/// `arguments` are the places of the kernel's arguments. There is memory at the addresses in them, also when the stream reaches the
/// work.
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
    arguments: *const *const c_void,
    _extra: *const c_void,
) -> Status {
    answer("cuLaunchKernel", || {
        if arguments.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let arguments = Arguments(arguments);
        match function {
            HOLD => hold(stream, &arguments),
            // SAFETY: the caller promises that there is memory.
            FILL => unsafe { fill(stream, &arguments) },
            // SAFETY: the caller promises that there is memory at both addresses.
            ADD => unsafe { add(stream, &arguments) },
            _ => Err(Status::INVALID_HANDLE),
        }
    })
}
