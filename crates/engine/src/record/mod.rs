//! A block of device memory through all its lives: where its memory comes from, which streams use it, and which cache takes it back.
//!
//! A life begins when a cache or the range serves a request with the record, and ends when the array is dropped. A request takes this way:
//! `Record::new` or `refill` (`lives`) gives the record memory, or `serve_position` (`record`) gives it a place in a plan's arena. While
//! the array lives, `sharing` notes other streams that use it. The drop looks at the record's [`DropPath`]. The record then waits in a
//! list, a plan or a return stack for its next life, or `vacate` (`lives`) returns its memory.
//!
//! ```text
//!                  supply                       hand out                      drop
//!   no record ───────────────▶ idle, or fresh ────────────▶ in use (`Block`) ──────┐
//!                              ▲  ▲                          │                     │
//!                              │  └── its own streams are    │ other streams use   │
//!                              │      behind all uses        ▼ it, or a view       │
//!                              │                           care ───────────────────┤
//!                              │                                                   ▼
//!   no record ◀── released ◀── idle: a list, a plan's stack, a spare ◀── its keeper, by way of a
//!                  (vacated)                                              return stack from other threads
//! ```
//!
//! A [`Record`] knows its memory ([`Origin`]), the actions of its drop ([`DropPath`]), and the [`Door`] of the cache that takes it back; it
//! knows no cache. A cache that serves records is a [`Keeper`], in a folder above this one.
//!
//! | file | its subject |
//! |---|---|
//! | `record` | [`Record`], and what each allocation and drop does with one |
//! | `lives` | how its lives begin and end, and where the memory goes |
//! | `identity` | the numbers of arenas, generations and lists, and what a drop has to do |
//! | `sharing`, `uses` | other streams that use a block, and how its own stream waits for them |
//! | `last_write` | when its own stream last wrote it |
//! | `outcome` | whether the late work of the host that wrote it failed |
//! | `outer_block` | a block of one cache that holds the arena of another one |
//! | `fence` | points in a stream's work |

mod fence;
mod identity;
mod last_write;
mod lives;
mod outcome;
mod outer_block;
#[expect(clippy::module_inception, reason = "the record proper, among what it is made of")]
mod record;
mod sharing;
mod uses;

use std::any::{Any, TypeId};
use std::panic::Location;

use crate::base::error::Result;
use crate::base::sync::OnceLock;

pub use fence::Fence;
pub(crate) use identity::{ArenaId, DropPath, Generation, ListPlace};
pub use outcome::Outcome;
pub(crate) use outer_block::{LentBlocks, OuterBlock};
pub(crate) use record::{Dims, Origin, Record, RecordStack};

/// The request for a block: a dtype, the dimensions, and their bytes.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The type of the elements.
    pub dtype: TypeId,
    /// Its name, for messages.
    pub type_name: &'static str,
    /// The dimensions, outermost first.
    pub dims: &'a [usize],
    /// The size of all elements in bytes.
    pub bytes: usize,
    /// The line of the program that makes the request, if it is known.
    pub site: Option<&'static Location<'static>>,
}

impl Request<'_> {
    /// A request for plain bytes. No array has their dtype.
    pub fn of_bytes(dims: &[usize; 1]) -> Request<'_> {
        Request { dtype: TypeId::of::<[u8]>(), type_name: "bytes", dims, bytes: dims[0], site: None }
    }
}

/// A front end's own object over a block's memory. It knows of uses on streams for which the engine has no handle.
pub trait View: Any + Send + Sync {
    /// Whether the memory has to stay with this block at its address, since other code has that address for good.
    fn is_pinned(&self) -> bool {
        false
    }

    /// Makes later work of the block's own stream wait for the writes of others, as far as the view knows of them.
    ///
    /// # Errors
    /// A failure to order the streams. The memory must then not be used.
    fn follow_writes(&self) -> Result<()>;

    /// Like [`follow_writes`](View::follow_writes), but waits for all uses by others. Nothing that the view lent is borrowed any more.
    ///
    /// # Errors
    /// As for [`follow_writes`](View::follow_writes).
    fn follow_uses(&mut self) -> Result<()>;
}

/// A cache that serves records and takes them back.
pub(crate) trait Keeper: Sync {
    /// Takes back a dropped record, on any thread.
    fn take_back(&'static self, record: Box<Record>);

    /// Notes that a record of this cache was freed on another stream than its own.
    fn note_freed_elsewhere(&self);

    /// Gives a record in the arena of this cache memory of its own, unless another thread has the cache now. The arena goes.
    fn detach(&'static self, record: &mut Record);

    /// Whether no other thread is inside the scope.
    fn is_reachable(&self) -> bool;
}

/// The way from a record to its keeper. A record has room for this thin address, and records compare it to tell keepers apart.
pub(crate) struct Door(OnceLock<&'static dyn Keeper>);

impl Door {
    pub(crate) fn new() -> Door {
        Door(OnceLock::new())
    }

    /// Makes the door lead to this keeper. Before that it leads nowhere.
    pub(crate) fn lead_to(&self, keeper: &'static dyn Keeper) {
        self.0.get_or_init(|| keeper);
    }

    /// The keeper, if the door leads to one.
    pub(crate) fn keeper(&self) -> Option<&'static dyn Keeper> {
        self.0.get().copied()
    }
}
