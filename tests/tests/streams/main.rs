//! Streams, and the order of their work. The tests take turns, since all streams of the host share one memory.
//!
//! | file | content |
//! |---|---|
//! | `host` | which memory late work may touch, and who waits |
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
mod lives;
mod overlap;
