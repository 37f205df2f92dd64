//! Modules, whatever their code, and the three kernels that each of them has. They are the kernels of `gpucache_tests::gpu`, which
//! compiles them for a GPU. Each kernel first waits.
//!
//! | kernel | arguments |
//! |---|---|
//! | `hold` | nanoseconds (64 bits) |
//! | `fill` | address, value (32 bits), elements (32 bits), nanoseconds |
//! | `add` | address of the sums, address of the inputs, value (32 bits), elements (32 bits), nanoseconds |

use std::ffi::{CStr, c_char, c_uint, c_void};

use crate::answer::{Answer, Out, Status, Text, answer};
use crate::launch::{Launch, Shape};
use crate::work::{self, Work};
use crate::{capture, context, streams};

const MODULE: usize = 0xB0_0000;
const HOLD: usize = 0xB0_0010;
const FILL: usize = 0xB0_0020;
const ADD: usize = 0xB0_0030;

/// A kernel of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    Hold,
    Fill,
    Add,
}

impl Kernel {
    pub(crate) fn find(handle: usize) -> Answer<Kernel> {
        match handle {
            HOLD => Ok(Kernel::Hold),
            FILL => Ok(Kernel::Fill),
            ADD => Ok(Kernel::Add),
            _ => Err(Status::INVALID_HANDLE),
        }
    }

    pub(crate) fn handle(self) -> usize {
        match self {
            Kernel::Hold => HOLD,
            Kernel::Fill => FILL,
            Kernel::Add => ADD,
        }
    }

    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Kernel::Hold => c"hold",
            Kernel::Fill => c"fill",
            Kernel::Add => c"add",
        }
    }

    /// The bytes of each argument. Each is aligned to its size.
    fn sizes(self) -> &'static [usize] {
        match self {
            Kernel::Hold => &[8],
            Kernel::Fill => &[8, 4, 4, 8],
            Kernel::Add => &[8, 8, 4, 4, 8],
        }
    }

    /// The offset and the bytes of each argument, as C lays out a structure of them.
    pub(crate) fn layout(self) -> Vec<(usize, usize)> {
        let mut end = 0;
        let place = |size: &usize| {
            let offset = usize::next_multiple_of(end, *size);
            end = offset + size;
            (offset, *size)
        };
        self.sizes().iter().map(place).collect()
    }
}

fn module(handle: usize) -> Answer {
    if handle == MODULE { Ok(()) } else { Err(Status::INVALID_HANDLE) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleLoadData(module: Out<usize>, _image: *const c_void) -> Status {
    answer("cuModuleLoadData", || {
        context::require()?;
        module.put(MODULE)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleUnload(handle: usize) -> Status {
    answer("cuModuleUnload", || {
        capture::forbid_unsafe()?;
        module(handle)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleGetFunction(function: Out<usize>, handle: usize, name: Text) -> Status {
    answer("cuModuleGetFunction", || {
        module(handle)?;
        let is_named = |kernel: &Kernel| name.read().is_some_and(|name| kernel.name().to_bytes() == name.as_bytes());
        let found = [Kernel::Hold, Kernel::Fill, Kernel::Add].into_iter().find(is_named);
        function.put(found.ok_or(Status::NOT_FOUND)?.handle())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuFuncGetName(name: Out<*const c_char>, function: usize) -> Status {
    answer("cuFuncGetName", || name.put(Kernel::find(function)?.name().as_ptr()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuFuncGetParamInfo(
    function: usize,
    which: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> Status {
    answer("cuFuncGetParamInfo", || {
        let layout = Kernel::find(function)?.layout();
        let (start, length) = *layout.get(which).ok_or(Status::INVALID_VALUE)?;
        // The program may leave out the size.
        bytes.put_if_wanted(length);
        offset.put(start)
    })
}

/// # Safety
/// `arguments` are the places of the kernel's arguments. There is memory at the addresses in them, also when the stream reaches the
/// work.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: usize,
    arguments: *const *const c_void,
    _extra: *const c_void,
) -> Status {
    answer("cuLaunchKernel", || {
        let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
        // SAFETY: the caller promises that these are the places of the kernel's arguments.
        let launch = Kernel::find(function).and_then(|kernel| unsafe { Launch::read(kernel, shape, arguments) });
        let launch = launch.or_else(|status| {
            capture::spoil(&*streams::find(stream)?);
            Err(status)
        })?;
        // SAFETY: the caller promises that there is memory at the addresses in the arguments.
        unsafe { work::give(Work::Kernel(launch), stream) }
    })
}
