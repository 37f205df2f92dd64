//! Memory that is freed while work on unknown streams still uses it.

use std::sync::Arc;

use super::some;
use crate::base::error::Result;
use crate::device::{IsDone, UnknownWork};
use crate::order::Unknown;

/// Work on unknown streams that uses memory after it was freed, and that no mark is behind.
#[derive(Debug)]
struct Unordered;

impl UnknownWork for Unordered {
    fn note(&self) {}

    fn is_possible(&self) -> bool {
        true
    }

    fn note_unordered(&self) {}

    fn is_unordered(&self) -> bool {
        true
    }

    fn mark(&self) -> Result<Option<IsDone>> {
        Ok(None)
    }
}

#[test]
fn unordered_memory_stays_with_the_stream_that_freed_it() {
    let (world, _, mut streams, [(a, lane), (b, _)]) = some();
    streams.unknown = Unknown::of(Some(Arc::new(Unordered)));
    world.work(lane);
    let tag = streams.free(&a);
    streams.claim(&a, tag).unwrap();
    assert!(streams.claim(&b, tag).is_err(), "work on a third stream may still use it");
    world.advance(lane, 1);
    drop(a);
    streams.retire();
    // Even the stream that gets the slot is another one.
    let (c, _) = world.stream();
    assert!(streams.claim(&c, tag).is_err());
    let own = streams.free(&c);
    streams.claim(&c, own).unwrap();
    let both = tag.merge(own);
    assert!(both.is_none_or(|both| streams.claim(&c, both).is_err()), "part of it is memory of the first stream");
}
