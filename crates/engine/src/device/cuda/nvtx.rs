//! NVTX ranges: Nsight Systems shows each scope under its name.
//!
//! The library is loaded once, at run time. Without it there are no ranges. While no tool listens, its functions return at once. cudarc's
//! own NVTX functions do not know the library's name since CUDA 12, and panic if they do not find it.
//!
//! Ranges are started and ended by number, since guards of scopes may be dropped in any order.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;

use libloading::Library;

use crate::base::sync::OnceLock;

/// The file names of the library: since CUDA 12, and before.
const LIBRARY: [&str; 5] =
    ["libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1", "nvtx3interop.dll", "nvToolsExt64_1.dll"];

/// Longer names are cut off at this length, so a range needs no heap memory.
const MOST_NAME_BYTES: usize = 255;

/// A C string: the address of bytes that end with a zero and do not change during `'a`.
#[repr(transparent)]
struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

/// The functions of the library. A range has the number that `start` returned.
#[derive(Clone, Copy)]
struct Nvtx {
    start: extern "C" fn(Text<'_>) -> u64,
    end: extern "C" fn(u64),
}

/// A range. It ends when this value is dropped.
#[derive(Debug)]
pub struct NvtxRange(u64);

impl Nvtx {
    /// The library of this machine, if it has one.
    #[inline]
    fn get() -> Option<&'static Nvtx> {
        static NVTX: OnceLock<Option<Nvtx>> = OnceLock::new();
        NVTX.get_or_init(|| Nvtx::load(&LIBRARY)).as_ref()
    }

    /// The first of these libraries that exists and has the functions.
    #[cold]
    fn load(names: &[&str]) -> Option<Nvtx> {
        names.iter().find_map(|name| {
            // SAFETY: loading runs the initialisers of NVIDIA's library, which any process may run at any time. Its header declares
            // functions of these names and types. The first reads a C string during the call only, and a `Text` always is one. The second
            // takes a number. Any thread may call them at any time. Their addresses stay valid, since a library that has them is never
            // unloaded.
            unsafe {
                let library = Library::new(*name).ok()?;
                let start = *library.get(b"nvtxRangeStartA\0").ok()?;
                let end = *library.get(b"nvtxRangeEnd\0").ok()?;
                std::mem::forget(library);
                Some(Nvtx { start, end })
            }
        })
    }

    /// Starts a range. C reads a name up to its first zero.
    fn start(self, name: &str) -> u64 {
        let mut bytes = [0; MOST_NAME_BYTES + 1];
        let most = (0..=name.len().min(MOST_NAME_BYTES)).rfind(|&end| name.is_char_boundary(end)).unwrap_or(0);
        bytes[..most].copy_from_slice(&name.as_bytes()[..most]);
        (self.start)(Text(bytes.as_ptr().cast(), PhantomData))
    }
}

impl NvtxRange {
    /// Whether the library was found, so that there are ranges.
    #[inline]
    pub fn is_there() -> bool {
        Nvtx::get().is_some()
    }

    /// Starts a range; `None` without the library.
    #[inline]
    pub fn start(name: &str) -> Option<NvtxRange> {
        Nvtx::get().map(|nvtx| NvtxRange(nvtx.start(name)))
    }
}

impl Drop for NvtxRange {
    fn drop(&mut self) {
        if let Some(nvtx) = Nvtx::get() {
            (nvtx.end)(self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::Mutex;

    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    extern "C" fn start(name: Text<'_>) -> u64 {
        // SAFETY: a `Text` is a C string.
        let name = unsafe { CStr::from_ptr(name.0) }.to_string_lossy().into_owned();
        let mut seen = SEEN.lock().unwrap();
        seen.push(name);
        seen.len() as u64
    }

    extern "C" fn end(_number: u64) {}

    #[test]
    fn a_library_that_is_missing_or_another_one_is_none() {
        assert!(Nvtx::load(&["libgpucache_no_such_library.so.1"]).is_none());
        assert!(Nvtx::load(&["libgpucache_no_such_library.so.1", "libc.so.6"]).is_none(), "it has no such functions");
    }

    #[test]
    fn a_name_is_told_up_to_a_zero_or_its_most_bytes() {
        let tool = Nvtx { start, end };
        // A letter of three bytes that does not fit as a whole where the name is cut off.
        let long = "\u{20ac}".repeat(MOST_NAME_BYTES);
        let numbers = ["step", "attention\0of the second layer", "", &long].map(|name| tool.start(name));
        assert_eq!(numbers, [1, 2, 3, 4]);
        let cut = "\u{20ac}".repeat(MOST_NAME_BYTES / 3);
        assert_eq!(*SEEN.lock().unwrap(), ["step", "attention", "", &cut]);
    }
}
