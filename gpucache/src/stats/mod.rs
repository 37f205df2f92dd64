//! Statistics: the work and the memory of scopes, of devices and of the whole process.
//!
//! All of it is one tree of plain data. Every type prints as a table or as a line, and can be serialized with the feature `serde`.
//!
//! | of | call | get |
//! |---|---|---|
//! | a scope | [`gpucache::stats("name")`](crate::stats()), [`Scope::stats`](crate::Scope::stats) | [`ScopeStats`]: hits and misses, busy and idle memory, [`served`](Served), [`plan`](PlanStats), `reclaim`, `offload`, `foreign`, [`threads`](ThreadStats) |
//! | a device | [`Device::stats`](crate::device::Device::stats) | [`DeviceStats`]: memory, range, order, `reclaim`, `offload` |
//! | the process | [`process()`] | [`ProcessStats`]: all devices and scopes |
//!
//! [`top()`] shows the process as a terminal program would. [`report_on_drop`] prints the allocations of a part of the
//! program. `GPUCACHE_WATCH=PATH` writes [`top()`] to a file once a second.
//!
//! Reading statistics calls no driver, except to ask whether timed moves of placed arrays are done. A program that reads none pays nothing for them: gpucache counts each event once, where it
//! happens.

// | file | content |
// |---|---|
// | `scope` | `ScopeStats`, `ThreadStats`: one scope and its threads; peaks that start again; `Invalidated`: what an invalidation freed |
// | `served`, `plan` | the parts of it |
// | `device` | `DeviceStats`: one device |
// | `process` | `ProcessStats`: all of them |
// | `guard` | `StatsGuard`: what a part of the program allocated |
// | `top` | `Top`: a line for each scope and thread, with bars |
// | `watch` | the same in a file, once a second |

mod device;
mod guard;
mod plan;
mod process;
mod scope;
mod served;
mod top;
mod watch;

pub use crate::offload::OffloadStats;
pub(crate) use device::of_device;
pub use device::{DeviceStats, RangeUse};
pub use gpucache_engine::home::Deviations;
pub use gpucache_engine::pressure::{ReclaimStats, ReclaimStep, StepUse};
pub use guard::{StatsGuard, report_on_drop};
pub use plan::{PlanStats, Unplanned};
pub use process::{ProcessStats, process};
pub(crate) use scope::of_scope;
pub use scope::{Invalidated, ScopeStats, ThreadStats, reset_peaks};
pub use served::{Amount, ForeignStats, InUse, Served};
pub use top::{Top, top};
pub(crate) use watch::start_from_environment;
