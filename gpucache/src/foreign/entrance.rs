//! How calls of the driver come here, and whether they do.
//!
//! A program that links the driver is linked with the functions of [`hooks`](super::hooks) before it. One that loads it opens the library of
//! [`shim`], if that is open first: so it is opened before `main` runs. That is tried in any program; one that
//! links the driver has no use of it, and it does no harm there.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::driver::{Driver, LIBRARY};
use super::hooks::HOOKS;
use super::probe::{Entrance, arrival};
use super::shim;
use gpucache_engine::{Error, Result};

/// Whether the library in front of the driver could not be opened from memory.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// How the allocations of other crates come to the scopes: asked by a call through cudarc, which has to arrive.
///
/// # Errors
/// [`is_unavailable`](Error::is_unavailable) where they do not, with the reason and what to do about it; scopes serve
/// [`Array`](crate::Array)s alone then.
///
/// ```
/// match gpucache::foreign::status() {
///     Ok(entrance) => println!("{entrance}"),
///     Err(error) => println!("tensors of other crates come from the driver: {error}"),
/// }
/// ```
pub fn status() -> Result<Entrance> {
    let refused = |why: &str, remedy| Error::unavailable("serving what other crates allocate", why, remedy);
    if Driver::get().is_none() {
        return Err(refused(
            "the driver library libcuda.so.1 was not found, or is older than CUDA 11.2",
            "install the NVIDIA driver, or a newer one",
        ));
    }
    arrival().ok_or_else(|| match IS_REFUSED.load(Relaxed) {
        true => refused(
            "the system allows no file in memory (memfd_create) to be opened as a library",
            "link the driver: cudarc's feature `dynamic-linking`",
        ),
        false => refused(
            "cudarc found the driver by another way than this crate's",
            "let nothing open `libcuda.so` by its path, or link the driver: cudarc's feature `dynamic-linking`",
        ),
    })
}

/// Runs before `main`: the linker gathers what is to do so in this section.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = open;

/// Opens the library in front of the driver, before anybody asks for it.
extern "C" fn open() {
    let names = HOOKS.map(|(name, _)| name);
    let file = shim::library("libcuda.so", LIBRARY, &names);
    // SAFETY: the library is open, and its table has a place for each hook, in their order; nobody else writes it, and nobody calls
    // through it before this returns, as it runs before `main`.
    let is_open = open_from_memory(&file).is_some_and(|library| unsafe {
        let table: *mut *const () = libc::dlsym(library, shim::TABLE.as_ptr()).cast();
        if !table.is_null() {
            HOOKS.iter().enumerate().for_each(|(place, (_, hook))| table.add(place).write(*hook));
        }
        !table.is_null()
    });
    IS_REFUSED.store(!is_open, Relaxed);
}

/// Opens a library whose file is these bytes, for as long as the process lives.
fn open_from_memory(file: &[u8]) -> Option<*mut c_void> {
    // SAFETY: the names are C strings, the bytes are readable, and the descriptor is one that was made here and is closed at
    // most once. The library has no initialisers of its own; those of the driver, which it needs, are made to be run by any process.
    unsafe {
        let descriptor = libc::memfd_create(c"libcuda.so".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return None;
        }
        let written = libc::write(descriptor, file.as_ptr().cast(), file.len());
        let path = format!("/proc/self/fd/{descriptor}\0");
        let path = CStr::from_bytes_until_nul(path.as_bytes()).unwrap_or_default();
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            // Kept otherwise: the loader knows libraries by their paths, and would give this one to whoever opens a library of his
            // own by the number of a descriptor, if that is this one's again.
            libc::close(descriptor);
        }
        (!library.is_null() && written == file.len() as isize).then_some(library)
    }
}
