//! A block of device memory through all its lives: where its memory comes from, who uses it, and who takes it back.
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
//! A [`Record`] knows its memory ([`Origin`]), what its drop has to do ([`DropPath`]), and the [`Door`] of the cache that
//! takes it back; it knows no cache. Whoever serves records is a [`Keeper`], above this room.
//!
//! | file | its one matter |
//! |---|---|
//! | `record` | [`Record`], and what each allocation and drop does with one |
//! | `lives` | how its lives begin and end, and where the memory goes |
//! | `request` | what a block is asked for |
//! | `identity` | the numbers by which arenas, generations and lists are known, and what a drop has to do |
//! | `sharing`, `uses` | other streams that use a block, and how its own is put behind them |
//! | `last_write` | when its own stream wrote it |
//! | `outcome` | how late work of the host ended that wrote it |
//! | `fence` | points in a stream's work |
//! | `view` | what a front end keeps with the memory |

mod fence;
mod identity;
mod last_write;
mod lives;
mod outcome;
#[expect(clippy::module_inception, reason = "the record proper, among what it is made of")]
mod record;
mod request;
mod sharing;
mod uses;
mod view;

use crate::base::sync::OnceLock;

pub use fence::Fence;
pub(crate) use identity::{ArenaId, DropPath, Generation, ListPlace};
pub use outcome::{Failure, Outcome};
pub(crate) use record::{Dims, Origin, Record, RecordStack};
pub use request::Request;
pub use view::View;

/// Who served a record and takes it back.
pub(crate) trait Keeper: Sync {
    /// Takes back what was dropped, on any thread.
    fn take_back(&'static self, record: Box<Record>);

    /// What it served was freed on another stream than its own.
    #[cfg(feature = "foreign")]
    fn note_freed_elsewhere(&self);
}

/// Where records find their keeper: a thin address, for which a record has room, and by which keepers are told apart.
pub(crate) struct Door(OnceLock<&'static dyn Keeper>);

impl Door {
    pub(crate) fn new() -> Door {
        Door(OnceLock::new())
    }

    /// Leads to this keeper from now on. Before that it leads nowhere.
    pub(crate) fn lead_to(&self, keeper: &'static dyn Keeper) {
        self.0.get_or_init(|| keeper);
    }

    /// Tells the keeper that what it served was freed on another stream than its own.
    #[cfg(feature = "foreign")]
    pub(crate) fn note_freed_elsewhere(&self) {
        self.0.get().into_iter().for_each(|keeper| keeper.note_freed_elsewhere());
    }

    /// Hands a record to its keeper.
    pub(crate) fn take_back(&self, record: Box<Record>) {
        if let Some(keeper) = self.0.get() {
            keeper.take_back(record);
        }
    }
}
