//! Collectives of NCCL on arrays: training on several GPUs.
//!
//! Each GPU is a *rank*: a thread, or a process that a launcher starts. A rank has its own device, its own scopes, and a
//! [`Communicator`]. One rank makes an [`Id`] and passes it to the others, and all connect. The calls of the communicator take arrays and
//! views, and order them like any other use. Communication on a stream of its own runs beside the computation, and takes its memory from the
//! same range.
//!
//! cudarc's own `Comm` takes arrays too. This module adds: connecting with a timeout, errors of other ranks
//! ([`failure`](Communicator::failure)), [`abort`](Communicator::abort), and registered memory
//! ([`registered_zeros`](Communicator::registered_zeros)). Nothing here panics if NCCL is missing or a rank fails.
//!
//! NCCL 2.19 or newer is loaded at the first call, as `libnccl.so.2` or `libnccl.so`.
//!
//! ```no_run
//! use std::time::Duration;
//! use gpucache::{cudarc::driver::CudaContext, nccl::{Communicator, Id, Reduction}, prelude::*};
//!
//! /// One rank. All get the same id, from a thread or a process that called `Id::new`.
//! fn train(rank: usize, ranks: usize, id: &Id) -> gpucache::Result<()> {
//!     let gpu = Cuda::new(rank)?;
//!     let side = Cuda::with_stream(gpu.stream().context().new_stream()?)?;
//!     let all = Communicator::connect(&side, id, rank, ranks, Duration::from_secs(60))?;
//!     let mut weights = gpu.zeros::<f32>(1 << 20)?;
//!     all.broadcast(&mut weights, 0)?;
//!     for _ in 0..100 {
//!         let mut gradient = Array::full(&gpu, 1 << 20, rank as f32)?; // computed on the stream of `gpu`
//!         all.all_reduce_in_place(&mut gradient, Reduction::Mean)?; // on `side`, behind that
//!         // other work of `gpu` runs beside it
//!         gpu.stream().memcpy_dtod(&gradient, &mut weights)?; // behind the collective
//!     }
//!     all.wait(Duration::from_secs(60))
//! }
//! ```

// A collective passes these files. A group of one or several collectives checks the lengths, and `prepared` orders the arrays for the
// communicator's stream and yields an `operation`, which is plain numbers. `communicator` lets one thread at a time call NCCL. `link` makes the call while it holds the lock of
// NCCL's object, and polls until the work is on the stream. Only then do the uses of
// its arrays end: others wait for that point, and not for later collectives.
//
// | file | content |
// |---|---|
// | `library` | the loaded library, its functions and codes, and the names of communicators |
// | `operation` | one operation as plain numbers, and the call of NCCL for it; element types and reductions |
// | `link` | NCCL's object: connection, abort, end, polling |
// | `buffer` | what collectives take, and their uses of it |
// | `prepared` | the checks of a collective, and the order of its arrays |
// | `communicator`, `collectives` | one rank, and its collectives |
// | `group` | collectives that are launched together |
// | `registered` | arrays in registered memory |

mod buffer;
mod collectives;
mod communicator;
mod group;
mod library;
mod link;
mod operation;
mod prepared;
mod registered;

pub use buffer::{Readable, Writable};
pub use communicator::Communicator;
pub use group::Group;
pub use library::Id;
pub use operation::{Number, Reduction};

use gpucache_engine::Result;

/// Whether NCCL was found, and is new enough.
///
/// ```
/// if !gpucache::nccl::is_available() {
///     eprintln!("NCCL is missing: one GPU is used");
/// }
/// ```
pub fn is_available() -> bool {
    library::Library::get().is_ok()
}

/// The version of NCCL: `(2, 28, 9)`, for example.
///
/// # Errors
/// [`is_unavailable`](crate::Error::is_unavailable) if NCCL is missing or too old. The message says which of them.
///
/// ```
/// match gpucache::nccl::version() {
///     Ok((major, minor, patch)) => println!("NCCL {major}.{minor}.{patch}"),
///     Err(error) => assert!(error.is_unavailable()),
/// }
/// ```
pub fn version() -> Result<(u32, u32, u32)> {
    library::Library::get().map(library::Library::version)
}
