//! The primary context of each device, and the context that is current on a thread. The last release destroys nothing.

use std::cell::Cell;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::answer::{Answer, Out, Status, answer};
use crate::{capture, device, streams};

/// The context of device 0. That of each further device is the next number.
pub(crate) const CONTEXT: usize = 0xC0_0000;

static RETAINED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Refuses a call if no context is current.
pub(crate) fn require() -> Answer {
    known(CURRENT.get())
}

/// The current context.
pub(crate) fn current() -> usize {
    CURRENT.get()
}

/// Refuses a context that does not exist.
pub(crate) fn known(context: usize) -> Answer {
    device_of(context).map(drop)
}

fn device_of(context: usize) -> Answer<c_int> {
    let device = context.checked_sub(CONTEXT).and_then(|device| c_int::try_from(device).ok());
    device.filter(|device| *device < device::count()).ok_or(Status::INVALID_CONTEXT)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRetain(context: Out<usize>, device: c_int) -> Status {
    answer("cuDevicePrimaryCtxRetain", || {
        device::known(device)?;
        RETAINED.fetch_add(1, Ordering::SeqCst);
        context.put(CONTEXT + device as usize)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<u32>, is_active: Out<c_int>) -> Status {
    answer("cuDevicePrimaryCtxGetState", || {
        device::known(device)?;
        flags.put(0)?;
        is_active.put(c_int::from(RETAINED.load(Ordering::SeqCst) > 0))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Status {
    answer("cuDevicePrimaryCtxRelease_v2", || {
        device::known(device)?;
        let less = RETAINED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
        less.map(drop).map_err(|_| Status::INVALID_CONTEXT)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetCurrent(context: Out<usize>) -> Status {
    answer("cuCtxGetCurrent", || device::initialized().and_then(|()| context.put(CURRENT.get())))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxSetCurrent(context: usize) -> Status {
    answer("cuCtxSetCurrent", || {
        device::initialized()?;
        if context != 0 {
            known(context)?;
        }
        CURRENT.set(context);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetDevice(device: Out<c_int>) -> Status {
    answer("cuCtxGetDevice", || device_of(CURRENT.get()).and_then(|own| device.put(own)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetId(context: usize, id: Out<u64>) -> Status {
    answer("cuCtxGetId", || {
        let device = device_of(if context == 0 { CURRENT.get() } else { context })?;
        id.put(1 + device as u64)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxSetFlags(_flags: c_uint) -> Status {
    answer("cuCtxSetFlags", require)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) -> Status {
    answer("cuCtxGetStreamPriorityRange", || {
        require()?;
        least.put_if_wanted(0);
        greatest.put_if_wanted(0);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxSynchronize() -> Status {
    answer("cuCtxSynchronize", || {
        require()?;
        capture::forbid_any()?;
        streams::synchronize();
        Ok(())
    })
}
