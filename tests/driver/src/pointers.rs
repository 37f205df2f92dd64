//! The attributes of an address.

use std::ffi::{c_int, c_uint, c_void};

use crate::answer::{Answer, Out, Status, answer};
use crate::context::CONTEXT;
use crate::{arena, pages, pinned};

const MEMORY_TYPE: c_uint = 2;
const MEMORY_OF_HOST: c_uint = 1;
const MEMORY_OF_DEVICE: c_uint = 2;

fn around(address: u64) -> Answer<(u64, u64)> {
    arena::around(address).or_else(|| pages::around(address)).ok_or(Status::INVALID_VALUE)
}

/// Whether streams read and write the memory there only when they reach the work: the device's memory, and pinned memory.
pub(crate) fn is_late(address: u64) -> bool {
    pinned::holds(address) || around(address).is_ok()
}

/// Writes one attribute of a device address, or the type of host memory that the driver allocated.
///
/// # Safety
/// `place` is valid for a write of the attribute's type.
unsafe fn put(place: *mut c_void, attribute: c_uint, address: u64) -> Answer {
    const OF_CONTEXT: c_uint = 1;
    const DEVICE_POINTER: c_uint = 3;
    const DEVICE_ORDINAL: c_uint = 9;
    const RANGE_START: c_uint = 11;
    const RANGE_SIZE: c_uint = 12;
    if attribute == MEMORY_TYPE && pinned::holds(address) {
        // SAFETY: the memory type is an `unsigned int`, and by this function's contract the place is valid for it.
        unsafe { place.cast::<c_uint>().write(MEMORY_OF_HOST) };
        return Ok(());
    }
    let (start, bytes) = around(address)?;
    // SAFETY: by this function's contract the place is valid for the attribute's type, and each arm writes exactly that.
    unsafe {
        match attribute {
            OF_CONTEXT => place.cast::<usize>().write(CONTEXT),
            MEMORY_TYPE => place.cast::<c_uint>().write(MEMORY_OF_DEVICE),
            DEVICE_POINTER => place.cast::<u64>().write(address),
            DEVICE_ORDINAL => place.cast::<c_int>().write(0),
            RANGE_START => place.cast::<u64>().write(start),
            RANGE_SIZE => place.cast::<usize>().write(bytes as usize),
            _ => return Err(Status::NOT_SUPPORTED),
        }
    }
    Ok(())
}

/// # Safety
/// `place` is valid for a write of the attribute's type.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuPointerGetAttribute(place: *mut c_void, attribute: c_uint, address: u64) -> Status {
    // SAFETY: the caller gives room for the attribute.
    answer("cuPointerGetAttribute", || unsafe { put(place, attribute, address) })
}

/// An address that the driver did not allocate has the memory type 0, and no other attribute.
///
/// # Safety
/// There are `count` attributes and as many places. Each place is valid for a write of its attribute's type.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuPointerGetAttributes(
    count: c_uint,
    attributes: *const c_uint,
    places: *const *mut c_void,
    address: u64,
) -> Status {
    answer("cuPointerGetAttributes", || {
        for which in 0..count as usize {
            // SAFETY: both arrays have `count` elements, and each place is valid for its attribute's type. The memory type, which
            // is written below, is an `unsigned int`.
            unsafe {
                let (attribute, place) = (*attributes.add(which), *places.add(which));
                if put(place, attribute, address).is_err() && attribute == MEMORY_TYPE {
                    place.cast::<c_uint>().write(0);
                }
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetAddressRange_v2(start: Out<u64>, bytes: Out<usize>, address: u64) -> Status {
    answer("cuMemGetAddressRange_v2", || {
        let (from, length) = around(address)?;
        start.put_if_wanted(from);
        bytes.put_if_wanted(length as usize);
        Ok(())
    })
}
