//! Arrays that may rest on the host: [`Placed`], for training what does not fit.
//!
//! A fetch walks like this: [`placed`] notes the use with the thread's `recorder`, and the moves that are due by its schedule are made;
//! then the `slot` is locked, and lent if the array is on the device. If not, the lock is given up, the device's `pool` makes room, by
//! having what was used least recently leave, and the slot copies the array in, behind which its stream comes. A drop of the guard unlocks
//! the slot. Copies run on the pool's copy streams, one in each direction, beside the work of the program's streams.
//!
//! Per thread there is one value (`recorder`): where the innermost scope has arrays rest, and what the thread knows of its entries. It has no
//! destructor of its own: the scopes' state of the thread ends it, after it has left all scopes.
//!
//! | file | its one matter |
//! |---|---|
//! | `placed` | [`Placed`]: what a program has |
//! | `unwritten` | arrays whose contents come with their first use |
//! | `guard` | [`Fetched`], [`FetchedMut`]: an array that stays on the device meanwhile |
//! | `slot` | where an array is, and how it leaves |
//! | `slot::coming` | how it comes |
//! | `recorder` | what the thread knows: which entry a use is of, and whether it goes as expected |
//! | `recorder::thread` | all that there is of a thread: the next uses by a known order, where a fetch sees them; what is counted and timed |
//! | `recorder::learned` | an entry that is written down |
//! | `recorder::followed` | an entry that goes by a known order, and makes the moves that are due |
//! | `recorder::timetable` | those moves: which arrays a fetch brings ahead of their use (prefetch), and how this becomes better |
//! | `recorder::pacer` | how long the work of an entry takes |
//! | `host_pools` | the pools of all devices, and what is counted of each device and scope |
//! | `host_pool` | the slots of a device: its copy streams, its room, and who leaves |
//! | `shift` | arrays that move on the device, so that free memory lies side by side |
//! | `waits` | how long streams waited for moves |
//! | `sampling` | which entries that is timed in |
//! | `moves` | what was moved, counted: [`OffloadStats`] |
//! | `speed` | how long copies take |
//! | `placement` | [`Placement`], and the one that new arrays get |

mod guard;
mod host_pool;
mod host_pools;
mod moves;
#[allow(clippy::module_inception, reason = "the file of the room's one type")]
mod placed;
mod placement;
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
pub(crate) use recorder::{end_thread, set_scoped};
