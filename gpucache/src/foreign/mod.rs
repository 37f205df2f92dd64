//! Tensors of other crates: inside a scope, memory that any code of the process allocates through the driver comes from that scope.
//!
//! With the feature `foreign`, on Linux, the scope's cache serves all memory that candle, kornia and other crates allocate through cudarc
//! inside the scope. It is planned and recycled like that of [`Array`](crate::Array)s, and [`invalidate`](crate::invalidate) frees it.
//! The code of those crates stays unchanged:
//!
//! ```no_run
//! # fn train_step() {}
//! gpucache::foreign::status()?; // tells if it cannot work, and why
//! for _ in 0..100 {
//!     gpucache::cache_scope!(train_step, { train_step() }); // candle's own code
//! }
//! println!("{}", gpucache::stats("train_step").unwrap().foreign);
//! # Ok::<(), gpucache::Error>(())
//! ```
#![allow(unsafe_code)]

// How a call is served.
//
// In a program that links the driver, the linker finds this crate's `cuMemAllocAsync` first. A program that loads the driver at run
// time, as cudarc does by default, opens a small library of this crate instead (`entrance`). Either way the call arrives at `hooks`, which
// calls `serve`. Inside a scope, `serve` finds the stream of the handle (`streams`) and takes a block from the scope's
// cache. It notes the block's address (`cache::addresses` of the engine) and returns the address. A free finds the block by its address and drops it, like the
// block of any array. Calls outside scopes go on to the driver (`driver`).
//
// | file | task |
// |---|---|
// | `hooks` | the driver's functions, as C code calls them |
// | `serve` | decides which calls are served and which are passed on, and orders a free |
// | `captures` | captures of other code: memory for them that nobody else gets before the graph ends |
// | `kept` | blocks that were freed without a stream during a capture |
// | `streams` | finds the stream of a handle, usually without a call |
// | `entrance`, `shim`, `probe` | intercept calls, and tell whether that works |
// | `driver` | the driver's own functions |
// | `pool` | the driver's own pool; the memory that counts as free |

mod captures;
mod driver;
mod entrance;
mod hooks;
mod kept;
mod pool;
mod probe;
mod serve;
mod shim;
mod streams;

pub use entrance::status;
pub use pool::keep_pool;
pub use probe::Entrance;
