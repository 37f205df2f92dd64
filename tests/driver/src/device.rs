//! The driver as a whole, and its devices: versions, names, attributes. The devices share one memory and one default stream.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::answer::{Answer, Out, Status, answer};
use crate::arena;

/// The version that `cuDriverGetVersion` returns: CUDA 13.0.
const VERSION: c_int = 13000;
const NAME: &[u8] = b"made-up device";

static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

pub(crate) fn initialized() -> Answer {
    if IS_INITIALIZED.load(Ordering::SeqCst) { Ok(()) } else { Err(Status::NOT_INITIALIZED) }
}

/// Refuses a device that does not exist.
pub(crate) fn known(device: c_int) -> Answer {
    initialized()?;
    if (0..count()).contains(&device) { Ok(()) } else { Err(Status::INVALID_DEVICE) }
}

/// The number of devices: `MADEUP_DEVICES`, or 1.
pub(crate) fn count() -> c_int {
    static COUNT: OnceLock<c_int> = OnceLock::new();
    *COUNT.get_or_init(|| std::env::var("MADEUP_DEVICES").ok().and_then(|text| text.parse().ok()).unwrap_or(1))
}

/// Whether the device has memory pools: `MADEUP_POOLS` is not 0.
pub(crate) fn has_pools() -> bool {
    static POOLS: OnceLock<bool> = OnceLock::new();
    *POOLS.get_or_init(|| std::env::var("MADEUP_POOLS").is_ok_and(|text| text == "0").eq(&false))
}

/// Whether the device has pages that can be mapped: `MADEUP_PAGES` is not 0.
fn has_pages() -> bool {
    static PAGES: OnceLock<bool> = OnceLock::new();
    *PAGES.get_or_init(|| std::env::var("MADEUP_PAGES").is_ok_and(|text| text == "0").eq(&false))
}

/// `CUdevice_attribute` by number. Attributes that nobody asks for are 0.
fn attribute(attribute: c_uint) -> c_int {
    const MAX_THREADS_PER_BLOCK: c_uint = 1;
    const WARP_SIZE: c_uint = 10;
    const MULTIPROCESSOR_COUNT: c_uint = 16;
    const UNIFIED_ADDRESSING: c_uint = 41;
    const COMPUTE_CAPABILITY_MAJOR: c_uint = 75;
    const VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: c_uint = 102;
    const MEMORY_POOLS_SUPPORTED: c_uint = 115;
    match attribute {
        MAX_THREADS_PER_BLOCK => 1024,
        WARP_SIZE => 32,
        MULTIPROCESSOR_COUNT | UNIFIED_ADDRESSING => 1,
        VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED => has_pages().into(),
        COMPUTE_CAPABILITY_MAJOR => 9,
        MEMORY_POOLS_SUPPORTED => has_pools().into(),
        _ => 0,
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuInit(flags: c_uint) -> Status {
    answer("cuInit", || {
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        IS_INITIALIZED.store(true, Ordering::SeqCst);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDriverGetVersion(version: Out<c_int>) -> Status {
    answer("cuDriverGetVersion", || version.put(VERSION))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetCount(count: Out<c_int>) -> Status {
    answer("cuDeviceGetCount", || initialized().and_then(|()| count.put(self::count())))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) -> Status {
    answer("cuDeviceGet", || known(ordinal).and_then(|()| device.put(ordinal)))
}

/// # Safety
/// `text` is valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuDeviceGetName(text: *mut c_char, length: c_int, device: c_int) -> Status {
    answer("cuDeviceGetName", || {
        known(device)?;
        let room = usize::try_from(length).unwrap_or(0).checked_sub(1).ok_or(Status::INVALID_VALUE)?;
        let bytes = NAME.len().min(room);
        // SAFETY: the caller gives room for `room` bytes and a zero behind them.
        unsafe {
            text.cast::<u8>().copy_from_nonoverlapping(NAME.as_ptr(), bytes);
            text.add(bytes).write(0);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: c_int) -> Status {
    answer("cuDeviceGetUuid_v2", || known(device).and_then(|()| uuid.put(*b"made-up device 0")))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) -> Status {
    answer("cuDeviceTotalMem_v2", || known(device).and_then(|()| bytes.put(arena::capacity() as usize)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetAttribute(value: Out<c_int>, which: c_uint, device: c_int) -> Status {
    answer("cuDeviceGetAttribute", || known(device).and_then(|()| value.put(attribute(which))))
}
