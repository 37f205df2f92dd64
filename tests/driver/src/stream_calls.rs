//! The functions of streams.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::answer::{Answer, Out, Status, answer};
use crate::context::CONTEXT;
use crate::{events, streams};

const NON_BLOCKING: c_uint = 1;

fn create(stream: &Out<usize>, flags: c_uint) -> Answer {
    stream.put(streams::create(flags & NON_BLOCKING == 0)?)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamCreate(stream: Out<usize>, flags: c_uint) -> Status {
    answer("cuStreamCreate", || create(&stream, flags))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamCreateWithPriority(stream: Out<usize>, flags: c_uint, _priority: c_int) -> Status {
    answer("cuStreamCreateWithPriority", || create(&stream, flags))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamDestroy_v2(stream: usize) -> Status {
    answer("cuStreamDestroy_v2", || streams::destroy(stream))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamQuery(stream: usize) -> Status {
    answer("cuStreamQuery", || if streams::is_done(stream)? { Ok(()) } else { Err(Status::NOT_READY) })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamSynchronize(stream: usize) -> Status {
    answer("cuStreamSynchronize", || {
        streams::end(stream)?.wait();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) -> Status {
    answer("cuStreamWaitEvent", || {
        let points = events::find(event)?.points();
        streams::submit(stream, move || points.iter().for_each(|point| point.wait())).map(drop)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetId(stream: usize, id: Out<u64>) -> Status {
    answer("cuStreamGetId", || id.put(streams::find(stream)?.id))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetCtx(stream: usize, context: Out<usize>) -> Status {
    answer("cuStreamGetCtx", || {
        streams::find(stream)?;
        context.put(CONTEXT)
    })
}

/// No stream is ever being captured.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamIsCapturing(stream: usize, status: Out<c_uint>) -> Status {
    answer("cuStreamIsCapturing", || {
        streams::find(stream)?;
        status.put(0)
    })
}

const GREATER_OR_EQUAL: c_uint = 0;

/// Makes a stream wait until a number in pinned memory is at least `value`.
///
/// # Safety
/// There is such a number at `address` until the stream has seen it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuStreamWaitValue32_v2(
    stream: usize,
    address: u64,
    value: u32,
    flags: c_uint,
) -> Status {
    answer("cuStreamWaitValue32_v2", || {
        if flags != GREATER_OR_EQUAL {
            return Err(Status::NOT_SUPPORTED);
        }
        let task = move || {
            // SAFETY: the caller promises that there is a number of 32 bits.
            let number = unsafe { AtomicU32::from_ptr(address as *mut u32) };
            // Compares like CUDA: cyclically.
            while (number.load(Ordering::Acquire).wrapping_sub(value) as i32) < 0 {
                std::thread::sleep(Duration::from_micros(50));
            }
        };
        streams::submit(stream, task).map(drop)
    })
}

/// A task with an address that only the program's function follows.
struct Call {
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

// SAFETY: this type does not follow the address. The caller of `cuLaunchHostFunc` promises that its function may be called with it
// on a thread of the driver.
unsafe impl Send for Call {}

impl Call {
    fn run(self) {
        // SAFETY: the caller of `cuLaunchHostFunc` promises that the function may be called once with its argument.
        unsafe { (self.function)(self.argument) }
    }
}

/// # Safety
/// `function` may be called with `argument` once, on any thread.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuLaunchHostFunc(
    stream: usize,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
) -> Status {
    answer("cuLaunchHostFunc", || {
        let call = Call { function: function.ok_or(Status::INVALID_VALUE)?, argument };
        streams::submit(stream, move || call.run()).map(drop)
    })
}
