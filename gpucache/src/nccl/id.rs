//! The name of a communicator, which all of its ranks know.

use std::fmt;

use super::library::{Library, RawId};
use gpucache_engine::Result;

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
pub struct Id(pub(super) RawId);

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
        Library::get()?.unique_id().map(Id)
    }

    /// The id with these bytes, which [`to_bytes`](Id::to_bytes) returned on another rank.
    ///
    /// ```
    /// use gpucache::nccl::Id;
    ///
    /// assert_eq!(Id::from_bytes([7; Id::BYTES]).to_bytes(), [7; 128]);
    /// ```
    pub fn from_bytes(bytes: [u8; Id::BYTES]) -> Id {
        Id(RawId(bytes))
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
        self.0.0
    }
}

/// Shows the first bytes in hexadecimal digits.
impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Id(")?;
        self.0.0[..16].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("..)")
    }
}
