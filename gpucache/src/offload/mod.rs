//! Arrays that move to host memory when the device runs short: [`Placed`], for training a model that does not fit.
//!
//! A [`Placed`] array is on the device while a guard of it lives ([`fetch`](Placed::fetch), [`fetch_mut`](Placed::fetch_mut)). While
//! nobody uses it, its [`Placement`] says where it rests: on the device, on the host, or (`Auto`) on the device until its memory is needed
//! for something else. Copies run beside the work of the program's streams. Once two entries of a scope fetched arrays in the same order
//! under a hard limit of the device, gpucache fetches each array ahead of its use (prefetch).
//!
//! ```
//! use gpucache::{device::Virtual, offload::Placed, prelude::*};
//!
//! let device = Virtual::new(1 << 30);
//! device.set_limit("8MiB")?;
//! let layers: Vec<_> = (0..4).map(|_| Placed::<u8, _>::zeros(&device, 4 << 20)).collect::<gpucache::Result<_>>()?;
//! for layer in &layers {
//!     let weights = layer.fetch()?; // on the device while this lives
//!     assert_eq!(weights.len(), 4 << 20);
//! }
//! assert!(device.memory().bytes <= 8 << 20);
//! println!("{}", device.stats().offload); // bytes in and out, evictions, waiting time
//! # Ok::<(), gpucache::Error>(())
//! ```

// How a fetch runs: `placed` notes the use with the thread's `recorder`, and makes the moves that are due by its schedule. Then it locks
// the `slot`, and lends the array if it is on the device. If not, it gives the lock up, the device's host memory pool makes room by
// evicting the least recently used arrays, and the slot copies the array in. The array's stream waits for that copy. Dropping the guard
// unlocks the slot. Copies run on the pool's copy streams, one for each direction, beside the work of the program's streams.
//
// Each thread has one value (`recorder`): where the innermost scope has arrays rest, and what the thread knows of its entries. It has no
// destructor of its own. The scopes' state of the thread ends it, after the thread has left all scopes.
//
// | file | content |
// |---|---|
// | `placed` | [`Placed`]: an array that may move to the host |
// | `unwritten` | placed arrays without contents until their first use |
// | `guard` | [`Fetched`], [`FetchedMut`]: guards that keep an array on the device |
// | `slot` | where an array is, and how it moves to the host |
// | `slot::coming` | brings an array back to the device |
// | `recorder` | the order of fetches in the entries of a scope, and whether an entry follows a known order |
// | `recorder::thread` | the state of a thread: the next uses of a known order, where a fetch sees them; counts, times, due moves |
// | `recorder::learned` | a recorded entry |
// | `recorder::followed` | an entry that follows a known order, and makes the moves that are due |
// | `recorder::timetable` | the schedule: which arrays a fetch brings ahead of their use (prefetch). It gets better as more is measured |
// | `recorder::pacer` | how long the work of an entry takes |
// | `recorder::change` | whether a known order no longer suits |
// | `recorder::misses` | what happens if arrays are fetched on demand although there is a schedule |
// | `host_pools` | the host memory pools of all devices, and the counts of each device and scope |
// | `host_pool` | the host memory pool of a device: its copy streams, the room for its arrays, and evictions |
// | `present` | the slots on the device, and the order in which their arrays leave |
// | `shift` | moves arrays within the device, so that free memory is contiguous |
// | `waits` | how long streams waited for moves |
// | `sampling` | which entries are timed |
// | `moves` | [`OffloadStats`]: the counts of moves |
// | `speed` | how long copies take |
// | `placement` | [`Placement`], and the default for new arrays; the part of a slot that needs no lock |

mod guard;
mod host_pool;
mod host_pools;
mod moves;
#[allow(clippy::module_inception, reason = "the file of the room's one type")]
mod placed;
mod placement;
mod present;
mod recorder;
mod sampling;
mod shift;
mod slot;
mod speed;
mod unwritten;
mod waits;

pub use guard::{Fetched, FetchedMut};
pub(crate) use host_pools::{stats_of_memory, stats_of_scope};
pub use moves::OffloadStats;
pub use placed::Placed;
pub use placement::{Placement, set_default_placement};
pub(crate) use recorder::{end_thread, forget_scope, set_scoped};
