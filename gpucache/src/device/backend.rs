//! What a new kind of device implements: its memory, its streams, and their events.
//!
//! A kind of device has a [`Backend`], which allocates and copies on one stream, and a handle, which implements
//! [`Device`](super::Device). A [`Memory`] is shared by the [`Stream`]s of one device. [`VirtualMemory`] gives the device pages, so that
//! free memory of several places can serve one array; [`Copies`] gives it queues for copies from and to the host.
//!
//! The methods of a [`Backend`], an [`Event`], a [`Mark`] and a [`VirtualMemory`] are called while this crate holds locks, and so are
//! the destructors of events and marks. They must not call this crate, and must not wait for a thread that calls it. The destructor of
//! a backend runs without a lock held.
//!
//! The example of [`Backend`] is a whole device.

pub use gpucache_engine::device::{Backend, Copies, Event, Mark, Memory, Stream, Unfinished, VirtualMemory};
