//! The cache of one scope on one thread, and how a thread finds it. A cache serves bytes on a stream under a key. It knows no
//! element types; `array` does.
//!
//! **An entry.** [`entry`] begins an entry and ends it. At the beginning the plans get their arena, and at the end they may give it
//! up.
//!
//! **An allocation.** If a plan expects the request, [`current::serve_planned`] serves it straight from the planner of the
//! innermost scope. Otherwise [`Block::allocate`] asks the [`Owner`](owner) of that scope's cache. The owner looks for a position
//! of the plan out of order, and then in the keyed lists ([`local`], [`lists`]). If both have nothing, the device's range supplies
//! the memory ([`supply`]).
//!
//! **A drop.** A [`Block`] returns to its home cache. If the dropping thread is inside the scope, the block returns directly on the
//! owner's side. Otherwise it goes to a return stack.
//!
//! **A captured graph.** A graph uses its memory at each launch, so that memory belongs to no scope (`graph_memory`).
//!
//! | file | content |
//! |---|---|
//! | `current` | the cache that serves this thread now, and the fast paths to it |
//! | `block`, `access` | memory in use, its drop, and the operations on its bytes |
//! | `addresses` | blocks by their addresses, for clients that know nothing else |
//! | `owner` | a cache, and the proof that this thread owns it: hits, supplies, drops |
//! | `visits` | how a thread enters a scope and leaves it |
//! | `entry` | the beginning and the end of an entry |
//! | `nested` | an entry inside the entry of another scope |
//! | `arena_bound` | how much the range may reserve for an arena: pure functions |
//! | `upkeep` | invalidation, the end of a thread or a name, giving memory back |
//! | `captured` | entries whose work is captured into a graph, or done by one |
//! | `brief` | a cache that a thread holds for a moment |
//! | `deferred` | blocks that returned while other streams may still use them |
//! | `local` | the owner's side of a cache as one struct |
//! | `lists` | idle blocks by key: dtype, shape and stream; the stream implies the device |
//! | `policy` | how much a scope keeps: pure functions |
//! | `chosen` | blocks at addresses that their owners computed |
//! | `supply` | the steps of a supply |
//! | `ring` | how the memory of a ring grows and shrinks |
//! | `traced` | the allocations, drops and entries that a trace records |
//! | `open` | the settings of a scope's open entries |
//! | `heard` | the events for subscribers of `tracing` |
//! | `told` | statistics of a cache, the thread that it serves, and notes for a diagnosis |
//! | `token`, `caller` | the number that identifies a thread; a caller that several threads share |
//! | `registry` | all scopes by name, and the caches of all threads in each |
//! | `allowance` | the limit of a scope |
//! | `scope_limit` | how many bytes that limit allows |
//! | `graph_memory` | memory that stays reserved for the work of a captured graph |

mod current;
mod registry;

mod access;
mod addresses;
mod allowance;
mod arena_bound;
mod block;
mod brief;
mod caller;
mod captured;
mod chosen;
mod deferred;
mod entry;
#[cfg(any(feature = "cuda", test))]
mod graph_memory;
#[cfg(feature = "tracing")]
mod heard;
mod lists;
mod local;
mod nested;
mod open;
mod owner;
mod policy;
mod ring;
mod scope_limit;
mod supply;
#[cfg(test)]
mod tests;
mod token;
mod told;
mod traced;
mod upkeep;
mod visits;

pub use block::Block;
pub use caller::Caller;
pub use current::{Current, Entry};
#[cfg(any(feature = "cuda", test))]
pub use graph_memory::GraphMemory;
pub use owner::Cache;
pub use policy::{Recycle, Terms};
pub use registry::NamedCaches;
pub use told::ScopeFacts;
