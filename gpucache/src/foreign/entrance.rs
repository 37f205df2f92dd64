//! How this crate intercepts calls of the driver, and whether it does.
//!
//! In a program that links the driver, the linker finds the functions of [`hooks`](super::hooks) before the driver's. A program that loads
//! the driver opens the library of [`shim`] instead, if that library is open first, so this file opens it before `main` runs. It does so
//! in every program; a program that links the driver does not use the library, and it does no harm there.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::driver::{Driver, LIBRARY};
use super::hooks::HOOKS;
use super::probe::{Entrance, arrival};
use super::shim;
use gpucache_engine::{Error, Result};

/// Whether the system refused to open the library in front of the driver from memory.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// If this variable is neither empty nor 0, allocations outside of all scopes come from the scope `auto`.
const AUTO_SCOPE: &str = "GPUCACHE_AUTO_SCOPE";

/// How the allocations of other crates reach the scopes. To find out, this function makes a call through cudarc and checks
/// that the call arrives at gpucache.
///
/// # Errors
/// [`is_unavailable`](Error::is_unavailable) if calls do not arrive, with the reason and the remedy. Scopes then serve only
/// [`Array`](crate::Array)s.
///
/// ```
/// match gpucache::foreign::status() {
///     Ok(entrance) => println!("{entrance}"),
///     Err(error) => println!("tensors of other crates come from the driver: {error}"),
/// }
/// ```
pub fn status() -> Result<Entrance> {
    let refused = |why: &str, remedy| Error::unavailable("the feature `foreign`", why, remedy);
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

/// Runs before `main`: the linker collects functions to be run at the start in this section.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = open;

/// Opens the library in front of the driver, before any code opens the driver.
extern "C" fn open() {
    let names = HOOKS.map(|(name, _)| name);
    let file = shim::library("libcuda.so", LIBRARY, &names);
    // SAFETY: the library is open, and its table has a place for each hook, in this order. Nobody else writes the table, and nobody
    // calls through it before this returns, because this runs before `main`.
    let is_open = open_from_memory(&file).is_some_and(|library| unsafe {
        let table: *mut *const () = libc::dlsym(library, shim::TABLE.as_ptr()).cast();
        if !table.is_null() {
            HOOKS.iter().enumerate().for_each(|(place, (_, hook))| table.add(place).write(*hook));
        }
        !table.is_null()
    });
    IS_REFUSED.store(!is_open, Relaxed);
    if std::env::var_os(AUTO_SCOPE).is_some_and(|value| !value.is_empty() && value != "0") {
        crate::scope::auto_scope();
    }
}

/// Opens a library whose file has these bytes. It stays open as long as the process lives.
fn open_from_memory(file: &[u8]) -> Option<*mut c_void> {
    // SAFETY: the names are C strings, and the bytes are readable. The descriptor was created here and is closed at
    // most once. The library has no initializers of its own. Those of the driver, which it needs, may run in any process.
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
            // On success the descriptor stays open. The loader identifies libraries by their paths: if another library was opened
            // later by the number of its descriptor, and the number was the same, the loader would return this library.
            libc::close(descriptor);
        }
        (!library.is_null() && written == file.len() as isize).then_some(library)
    }
}
