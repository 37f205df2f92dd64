//! The bytes of the device, which are the host's: fills and copies at addresses from programs.

/// Fills `bytes` bytes with repetitions of `pattern`. `bytes` is a multiple of the pattern's length.
///
/// # Safety
/// There is memory of the device at `[address, address + bytes)`.
pub(crate) unsafe fn fill(address: u64, pattern: &[u8], bytes: usize) {
    let place = address as *mut u8;
    if let [byte] = *pattern {
        // SAFETY: there is memory for `bytes` bytes by this function's contract.
        return unsafe { place.write_bytes(byte, bytes) };
    }
    let mut filled = pattern.len().min(bytes);
    // SAFETY: there is memory for as many bytes by this function's contract. No program has the pattern, so it lies elsewhere.
    unsafe { place.copy_from_nonoverlapping(pattern.as_ptr(), filled) };
    // Copies the filled part behind itself, twice as much each time.
    while filled < bytes {
        let more = filled.min(bytes - filled);
        // SAFETY: by this function's contract there is memory for the `filled` bytes, and for `more` bytes behind them.
        unsafe { place.add(filled).copy_from_nonoverlapping(place, more) };
        filled += more;
    }
}

/// Writes one `pattern` at the front of each of `rows` rows, `pitch` bytes apart.
///
/// # Safety
/// There is memory of the device at each row.
pub(crate) unsafe fn fill_rows(address: u64, pitch: usize, pattern: &[u8], bytes: usize, rows: usize) {
    for row in 0..rows {
        // SAFETY: there is memory at the front of each row by this function's contract.
        unsafe { fill(address + (row * pitch) as u64, pattern, bytes) };
    }
}

/// Copies between addresses of the device, which may overlap.
///
/// # Safety
/// There is memory of the device at both addresses.
pub(crate) unsafe fn copy(from: u64, to: u64, bytes: usize) {
    // SAFETY: there are `bytes` bytes at both addresses by this function's contract.
    unsafe { (to as *mut u8).copy_from(from as *const u8, bytes) }
}

/// Writes `element + value` for each of `len` elements. The arrays may be the same, as for a kernel whose threads read and write at
/// once.
///
/// # Safety
/// There is memory of the device for `len` elements at both addresses, which are multiples of four.
pub(crate) unsafe fn add(from: u64, to: u64, value: u32, len: usize) {
    let (from, to) = (from as *const u32, to as *mut u32);
    for place in 0..len {
        // SAFETY: there is memory for `len` elements at both addresses by this function's contract.
        unsafe { to.add(place).write(from.add(place).read().wrapping_add(value)) };
    }
}

/// The bytes at an address of the host.
///
/// # Safety
/// `bytes` bytes may be read there.
pub(crate) unsafe fn read(from: *const u8, bytes: usize) -> Vec<u8> {
    let mut copy = Vec::with_capacity(bytes);
    // SAFETY: by this function's contract there are `bytes` bytes at `from`. The vector has room for them, and its length becomes
    // the number of written bytes.
    unsafe {
        from.copy_to_nonoverlapping(copy.as_mut_ptr(), bytes);
        copy.set_len(bytes);
    }
    copy
}
