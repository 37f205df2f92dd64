//! The functions of streams.

use std::ffi::{c_int, c_uint, c_void};

use crate::answer::{Answer, Out, Status, answer};
use crate::work::{self, Call, Work};
use crate::{capture, events, streams};

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
    answer("cuStreamQuery", || {
        capture::forbid_unsafe()?;
        if streams::is_done(stream)? { Ok(()) } else { Err(Status::NOT_READY) }
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamSynchronize(stream: usize) -> Status {
    answer("cuStreamSynchronize", || {
        capture::forbid_unsafe()?;
        streams::end(stream)?.wait();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) -> Status {
    answer("cuStreamWaitEvent", || events::find(event)?.hold(stream))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetId(stream: usize, id: Out<u64>) -> Status {
    answer("cuStreamGetId", || {
        let stream = streams::find(stream)?;
        capture::refuse(&stream)?;
        id.put(stream.id)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetCtx(stream: usize, context: Out<usize>) -> Status {
    answer("cuStreamGetCtx", || context.put(streams::find(stream)?.context(stream)))
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
        // SAFETY: the caller promises that there is a number of 32 bits.
        unsafe { work::give(Work::Await(address, value), stream) }
    })
}

/// # Safety
/// `function` may be called with `argument` on any thread: once, or at each launch of a graph that the stream is captured into.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuLaunchHostFunc(
    stream: usize,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
) -> Status {
    answer("cuLaunchHostFunc", || {
        let call = Call { function: function.ok_or(Status::INVALID_VALUE)?, argument };
        // SAFETY: the caller promises that the function may be called.
        unsafe { work::give(Work::Call(call), stream) }
    })
}
