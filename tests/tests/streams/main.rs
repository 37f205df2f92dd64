//! Streams, and the order of their work. The tests take turns, since all streams of the host share one memory.
//!
//! | file | content |
//! |---|---|
//! | `host` | which memory late work may touch, and who waits |
//! | `lent` | slices that work was lent, and other ways to their memory |
//! | `lives` | late work of one life of memory, and the next life |
//! | `between` | copies between streams |
//! | `ended` | destructors of streams |
//! | `crowd` | sixty-four threads with a stream each |
//! | `overlap` | streams that work at the same time |
//! | `failed_work` | work that panics |
#![allow(clippy::panic, clippy::unwrap_used)]

mod between;
mod crowd;
mod ended;
mod failed_work;
mod host;
mod lent;
mod lives;
mod overlap;

use std::sync::mpsc::{Sender, channel};

use gpucache::device::OrderUse;
use gpucache::prelude::*;

/// Holds the stream's work back until the gate is dropped.
fn gate(stream: &Host) -> Sender<()> {
    let (open, opened) = channel::<()>();
    stream.launch((), move |()| assert!(opened.recv().is_err())).unwrap();
    open
}

/// The number of events, queries and waits between streams so far.
fn calls(stream: &Host) -> [u64; 3] {
    let OrderUse { events, queries, waits, .. } = stream.ordering();
    [events, queries, waits]
}

fn since(stream: &Host, before: [u64; 3]) -> [u64; 3] {
    let now = calls(stream);
    std::array::from_fn(|call| now[call] - before[call])
}
