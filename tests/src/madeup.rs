//! The made-up driver (`tests/driver`) and the made-up NCCL (`tests/nccl`), built where programs find it.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The names by which linkers and loaders ask for a driver.
pub const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// The name by which programs ask for NCCL.
const NCCL: &CStr = c"libnccl.so.2";

/// The folder in which the tests of a workspace build the driver.
///
/// # Panics
/// If this program does not lie where Cargo puts tests.
pub fn target() -> PathBuf {
    let program = std::env::current_exe().expect("the program has a path");
    program.ancestors().nth(3).expect("it lies in `target/debug/deps`").join("tmp/driver")
}

/// The folder of the made-up driver, unless this process finds another driver.
///
/// # Panics
/// If it is not built.
pub fn folder_unless_there_is_another() -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| open(c"libcuda.so.1").is_none().then(|| driver(&target()))).clone()
}

/// Loads the made-up driver in this process, unless the process finds another one. Once it is open, cudarc finds it under the name
/// `libcuda.so.1`. A program whose own allocations are served (`foreign`) needs its driver from its start.
///
/// # Panics
/// If it is not built, or does not open.
pub fn load_unless_there_is_another() {
    if let Some(folder) = folder_unless_there_is_another() {
        let path = CString::new(folder.join(NAMES[0]).as_os_str().as_bytes()).expect("a path");
        assert!(open(&path).is_some(), "the made-up driver opens: {path:?}");
    }
}

/// Loads the made-up NCCL in this process, if its driver is the made-up one and it finds no other NCCL.
///
/// # Panics
/// If it is not built, or does not open.
pub fn load_nccl_unless_there_is_another() {
    static LOADED: OnceLock<()> = OnceLock::new();
    LOADED.get_or_init(|| {
        if !is_loaded() || open(NCCL).is_some() {
            return;
        }
        let target = target();
        build("nccl/Cargo.toml", &target, &[], []);
        let built = std::fs::read(target.join("debug/libmadeup_nccl.so")).expect("the library is built");
        let name = NCCL.to_str().expect("a name");
        let path = folder(&target.join("nccl"), &built, &[name]).join(name);
        let path = CString::new(path.as_os_str().as_bytes()).expect("a path");
        assert!(open(&path).is_some(), "the made-up NCCL opens: {path:?}");
    });
}

/// Lets the made-up NCCL refuse registrations, or accept them again.
///
/// # Panics
/// If NCCL is not the made-up one.
#[allow(unsafe_code)]
pub fn refuse_registrations(refuses: bool) {
    let library = open(NCCL).expect("NCCL is loaded");
    // SAFETY: the library is open, and the name is a text that ends with a zero.
    let found = unsafe { dlsym(library, c"madeup_nccl_refuse".as_ptr()) };
    assert!(!found.is_null(), "NCCL is the made-up one");
    // SAFETY: no other NCCL has a function of this name, and it has this type.
    let refuse = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(c_int)>(found) };
    refuse(c_int::from(refuses));
}

#[allow(unsafe_code)]
unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Opens a library by its name or path. It stays open.
#[allow(unsafe_code)]
fn open(name: &CStr) -> Option<*mut c_void> {
    const NOW: c_int = 2;
    // SAFETY: the name is a text that ends with a zero. A driver's initialisers may be run by any process.
    let library = unsafe { dlopen(name.as_ptr(), NOW) };
    (!library.is_null()).then_some(library)
}

/// Destroys a stream by the driver itself, made up or not, as other libraries do. This crate notices the same call by cudarc.
///
/// # Panics
/// If the driver refuses.
///
/// # Safety
/// Nobody uses the stream again.
#[allow(unsafe_code)]
pub unsafe fn destroy_unnoticed(stream: *mut c_void) {
    let destroy = own(c"cuStreamDestroy_v2").expect("the driver is loaded");
    // SAFETY: this is the type of the driver's function, and the caller lets the stream end.
    let status = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(*mut c_void) -> c_int>(destroy)(stream) };
    assert_eq!(status, 0, "the driver destroys the stream");
}

/// Begins a capture by the driver itself, made up or not, as [`destroy_unnoticed`] destroys a stream.
///
/// # Panics
/// If the driver refuses.
///
/// # Safety
/// The stream is alive, and is not captured yet.
#[allow(unsafe_code)]
pub unsafe fn begin_capture_unnoticed(stream: *mut c_void) {
    const GLOBAL: c_int = 0;
    let begin = own(c"cuStreamBeginCapture_v2").expect("the driver is loaded");
    // SAFETY: this is the type of the driver's function, and the caller names a stream that can be captured.
    let status = unsafe {
        std::mem::transmute::<*mut c_void, extern "C" fn(*mut c_void, c_int) -> c_int>(begin)(stream, GLOBAL)
    };
    assert_eq!(status, 0, "the driver begins the capture");
}

/// A function of the driver. The made-up one has some that no other has.
#[allow(unsafe_code)]
fn own(name: &CStr) -> Option<*mut c_void> {
    let driver = open(c"libcuda.so.1")?;
    // SAFETY: the library is open, and the name is a text that ends with a zero.
    let found = unsafe { dlsym(driver, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The function of the made-up driver that returns how often another function was called.
#[allow(unsafe_code)]
fn counter() -> Option<extern "C" fn(*const c_char) -> u64> {
    // SAFETY: no other driver has a function of this name, and it has this type.
    own(c"madeup_calls")
        .map(|found| unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(*const c_char) -> u64>(found) })
}

/// Whether the driver of this process is the made-up one.
pub fn is_loaded() -> bool {
    counter().is_some()
}

/// How often the made-up driver's function of this name was called.
///
/// # Panics
/// If the driver is not the made-up one.
pub fn calls(name: &CStr) -> u64 {
    counter().expect("the made-up driver is loaded")(name.as_ptr())
}

/// Lets calls of a function of the made-up driver fail: of its calls from now on, the first `after` go as usual, and the next `times`
/// only return `status` (`u64::MAX`: all of them). With `times` 0, no call fails.
///
/// # Panics
/// If the driver is not the made-up one.
#[allow(unsafe_code)]
pub fn fail(name: &CStr, after: u64, times: u64, status: u32) {
    type Fail = extern "C" fn(*const c_char, u64, u64, u32) -> u32;
    let found = own(c"madeup_fail").expect("the made-up driver is loaded");
    // SAFETY: no other driver has a function of this name, and it has this type.
    let fail = unsafe { std::mem::transmute::<*mut c_void, Fail>(found) };
    assert_eq!(fail(name.as_ptr(), after, times, status), 0);
}

/// Builds a package of the repository, given by the path of its manifest, into a folder that all such builds share.
///
/// # Panics
/// If it is not built.
pub fn build<'a>(
    manifest: &str,
    target: &Path,
    arguments: &[&str],
    variables: impl IntoIterator<Item = (&'a str, &'a OsStr)>,
) {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(manifest);
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(&manifest).arg("--target-dir").arg(target);
    command.args(arguments).envs(variables);
    // This variable of a test would be taken for a build script's.
    command.env_remove("CARGO_MANIFEST_DIR");
    let built = command.output().expect("Cargo starts");
    assert!(built.status.success(), "{manifest:?}: {}", String::from_utf8_lossy(&built.stderr));
}

/// Builds the driver into `target`, and returns the folder in which it has a driver's names.
///
/// # Panics
/// If it is not built, or not found.
pub fn driver(target: &Path) -> PathBuf {
    build("driver/Cargo.toml", target, &[], []);
    let built = std::fs::read(target.join("debug/libmadeup_driver.so")).expect("the driver is built");
    folder(&target.join("driver"), &built, &NAMES)
}

/// As [`driver`], without one of its functions, like drivers from before that function came.
///
/// # Panics
/// As [`driver`].
pub fn driver_without(target: &Path, function: &str) -> PathBuf {
    let mut bytes = std::fs::read(driver(target).join(NAMES[0])).expect("the driver is there");
    let name = format!("{function}\0").into_bytes();
    while let Some(place) = bytes.windows(name.len()).position(|window| window == name) {
        bytes[place] = b'_';
    }
    folder(&target.join(format!("driver-without-{function}")), &bytes, &NAMES)
}

/// A folder in which a library has its names. Existing files are not written again, since programs may be using them.
fn folder(path: &Path, library: &[u8], names: &[&str]) -> PathBuf {
    // Two threads of a process would write the same file.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    std::fs::create_dir_all(path).expect("a folder");
    for name in names {
        let place = path.join(name);
        if std::fs::read(&place).is_ok_and(|known| known == library) {
            continue;
        }
        let beside = path.join(format!("{name}-{}", std::process::id()));
        std::fs::write(&beside, library).expect("room for the library");
        std::fs::rename(beside, place).expect("a name for the library");
    }
    path.into()
}
