//! NCCL's library, which is loaded at the first call, and the C functions that this folder uses.
//!
//! cudarc loads the library by its name for developers (`libnccl.so`) and panics if a function is missing. Packages for Python have only
//! the name with a version. So the library is loaded here, and a library that is missing or too old is an error.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;

use gpucache_engine::base::sync::OnceLock;
use gpucache_engine::{Error, Result};

/// A communicator of NCCL.
pub(super) type RawComm = *mut c_void;
/// A stream of CUDA.
pub(super) type RawStream = *mut c_void;

/// The names under which the library is looked for.
const NAMES: [&str; 4] = ["libnccl.so.2", "libnccl.so", "nccl.dll", "libnccl.dylib"];
/// The oldest version that has all functions: 2.19.3.
const OLDEST: c_int = 21903;

/// The beginning of NCCL's `ncclConfig_t`, as version 2.14 declared it. Newer libraries use defaults for the fields behind it, as `size` and
/// `version` say.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

impl Config {
    /// The configuration of a communicator whose calls do not block.
    pub(super) fn nonblocking() -> Config {
        let size = std::mem::offset_of!(Config, blocking) + size_of::<c_int>();
        Config { size, magic: 0xcafe_beef, version: 21400, blocking: 0 }
    }
}

macro_rules! library {
    ($($name:ident: $symbol:literal($($argument:ty),*);)*) => {
        /// The loaded library, and its functions. Each returns a code ([`Code`]).
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
            version: c_int,
            /// Keeps the functions at their addresses.
            _loaded: libloading::Library,
        }

        impl Library {
            /// # Errors
            /// The name of a function that the library does not have.
            fn of(loaded: libloading::Library) -> Result<Library, &'static str> {
                Ok(Library {
                    $(
                        // SAFETY: the type is that of the function in `nccl.h`, which has not changed since it was added. The library is
                        // never unloaded while the pointer is used: both are kept for as long as the process lives.
                        $name: *unsafe { loaded.get($symbol) }.map_err(|_| $symbol)?,
                    )*
                    version: 0,
                    _loaded: loaded,
                })
            }
        }
    };
}

library! {
    get_version: "ncclGetVersion"(*mut c_int);
    get_unique_id: "ncclGetUniqueId"(*mut Id);
    init_rank: "ncclCommInitRankConfig"(*mut RawComm, c_int, Id, c_int, *mut Config);
    async_error: "ncclCommGetAsyncError"(RawComm, *mut c_int);
    finalize: "ncclCommFinalize"(RawComm);
    destroy: "ncclCommDestroy"(RawComm);
    abort: "ncclCommAbort"(RawComm);
    register: "ncclCommRegister"(RawComm, *mut c_void, usize, *mut *mut c_void);
    deregister: "ncclCommDeregister"(RawComm, *mut c_void);
    allocate: "ncclMemAlloc"(*mut *mut c_void, usize);
    free: "ncclMemFree"(*mut c_void);
    group_start: "ncclGroupStart"();
    group_end: "ncclGroupEnd"();
    all_reduce: "ncclAllReduce"(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream);
    reduce: "ncclReduce"(*const c_void, *mut c_void, usize, c_int, c_int, c_int, RawComm, RawStream);
    reduce_scatter: "ncclReduceScatter"(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream);
    all_gather: "ncclAllGather"(*const c_void, *mut c_void, usize, c_int, RawComm, RawStream);
    broadcast: "ncclBroadcast"(*const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream);
    send: "ncclSend"(*const c_void, usize, c_int, c_int, RawComm, RawStream);
    recv: "ncclRecv"(*mut c_void, usize, c_int, c_int, RawComm, RawStream);
}

/// The answer of a function of NCCL (`ncclResult_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) c_int);

impl Code {
    pub(super) const SUCCESS: Code = Code(0);
    /// A call of a communicator that does not block goes on in the background.
    pub(super) const IN_PROGRESS: Code = Code(7);

    pub(super) fn is_error(self) -> bool {
        self != Code::SUCCESS && self != Code::IN_PROGRESS
    }

    /// The name of the code in `nccl.h`, and its meaning.
    fn words(self) -> &'static str {
        match self.0 {
            1 => "ncclUnhandledCudaError: a call of CUDA failed",
            2 => "ncclSystemError: a call of the system failed",
            3 => "ncclInternalError: a failure inside NCCL, or memory that was overwritten",
            4 => "ncclInvalidArgument: an argument is wrong",
            5 => "ncclInvalidUsage: the call does not fit the calls of the other ranks, or earlier calls",
            6 => "ncclRemoteError: another rank failed or ended",
            8 => "ncclTimeout: a call took too long",
            _ => "a code that this crate does not know",
        }
    }

    /// The error for this answer to `operation` of `who`.
    pub(super) fn error(self, who: &str, operation: &'static str) -> Error {
        let remedy = match self.0 {
            4 | 5 => "check that all ranks make the same calls; `NCCL_DEBUG=WARN` shows more",
            _ => "see why a rank failed (`NCCL_DEBUG=WARN` shows more), and connect all ranks again",
        };
        Error::refused(who, operation, self.words(), remedy)
    }
}

impl Library {
    /// The library of this process.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) if there is no library, or only one that is too old.
    pub(super) fn get() -> Result<&'static Library> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(Library::load).as_ref().map_err(|why| {
            let remedy = "install NCCL 2.19 or newer, and name the folder of `libnccl.so.2` in LD_LIBRARY_PATH";
            Error::unavailable("NCCL", why, remedy)
        })
    }

    /// # Errors
    /// The reason why no library can be used.
    fn load() -> Result<Library, String> {
        // SAFETY: loading runs the initialisers of NCCL's library, which any process may run at any time. It is never unloaded.
        let load = |name: &&str| unsafe { libloading::Library::new(*name) }.ok();
        let loaded = NAMES.iter().find_map(load).ok_or_else(|| format!("no library {} was found", NAMES[0]))?;
        let missing = |name| format!("the library has no {name}");
        let mut library = Library::of(loaded).map_err(missing)?;
        // SAFETY: the function writes one `int`, for which there is room.
        let code = unsafe { (library.get_version)(&mut library.version) };
        match Code(code).is_error() || library.version < OLDEST {
            true => Err(format!("the library has version {}, and {OLDEST} is needed", library.version)),
            false => Ok(library),
        }
    }

    /// The version: 2, 28 and 9, say.
    pub(super) fn version(&self) -> (u32, u32, u32) {
        let version = self.version.unsigned_abs();
        (version / 10_000, version / 100 % 100, version % 100)
    }
}

/// The name of a communicator. One rank makes it, and passes its bytes to all others before they connect.
///
/// ```no_run
/// use std::{io::{Read, Write}, net::{TcpListener, TcpStream}};
/// use gpucache::nccl::Id;
///
/// fn exchange(rank: usize, ranks: usize) -> Result<Id, Box<dyn std::error::Error>> {
///     if rank > 0 {
///         let mut bytes = [0; Id::BYTES];
///         TcpStream::connect("main.example:29500")?.read_exact(&mut bytes)?;
///         return Ok(Id::from_bytes(bytes));
///     }
///     let (id, listener) = (Id::new()?, TcpListener::bind("0.0.0.0:29500")?);
///     for _ in 1..ranks {
///         listener.accept()?.0.write_all(&id.to_bytes())?;
///     }
///     Ok(id)
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Id([u8; 128]);

impl Id {
    /// The number of bytes of an id.
    pub const BYTES: usize = 128;

    /// A new id. The process that makes it must live until all ranks have connected, because NCCL listens there.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) without NCCL; [`is_device_failure`](crate::Error::is_device_failure) if NCCL finds
    /// no network interface.
    ///
    /// ```no_run
    /// let id = gpucache::nccl::Id::new()?;
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn new() -> Result<Id> {
        let (library, mut id) = (Library::get()?, Id([0; Id::BYTES]));
        // SAFETY: the function writes 128 bytes, for which there is room.
        match Code(unsafe { (library.get_unique_id)(&mut id) }) {
            Code::SUCCESS => Ok(id),
            code => Err(code.error("NCCL", "making an id")),
        }
    }

    /// The id with these bytes, which [`to_bytes`](Id::to_bytes) returned on another rank.
    ///
    /// ```
    /// use gpucache::nccl::Id;
    ///
    /// assert_eq!(Id::from_bytes([7; Id::BYTES]).to_bytes(), [7; 128]);
    /// ```
    pub fn from_bytes(bytes: [u8; Id::BYTES]) -> Id {
        Id(bytes)
    }

    /// The bytes, for other ranks.
    ///
    /// ```no_run
    /// use gpucache::nccl::Id;
    ///
    /// std::fs::write("id", Id::new()?.to_bytes()).unwrap();
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn to_bytes(&self) -> [u8; Id::BYTES] {
        self.0
    }
}

/// Shows the first bytes in hexadecimal digits.
impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Id(")?;
        self.0[..16].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("..)")
    }
}
