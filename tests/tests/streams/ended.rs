//! A backend's destructor is code of the program. It runs once nothing of this crate is locked, whoever has the stream's last handle.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use gpucache::device::backend::{Memory, Stream};
use gpucache::prelude::*;
use gpucache::{Recycle, Scope};

#[allow(dead_code, unreachable_pub)]
mod plain {
    include!("../../../crates/engine/docs/plain.rs");
}
use gpucache_tests::turn;
use plain::Plain;

const NAME: &str = "ended streams";
static ENDED: AtomicUsize = AtomicUsize::new(0);

impl Drop for Plain {
    fn drop(&mut self) {
        // Under the hold of the scope's cache, this would wait for itself.
        gpucache::invalidate(NAME);
        ENDED.fetch_add(1, SeqCst);
    }
}

/// One of several streams of a device without a range.
#[derive(Clone, Debug)]
#[repr(transparent)]
struct OneOfSeveral(Stream);

// SAFETY: a transparent struct around the stream that it gives out.
unsafe impl Device for OneOfSeveral {
    fn stream_handle(&self) -> &Stream {
        &self.0
    }
}

#[test]
fn memory_that_waits_for_a_stream_may_have_its_last_handle() {
    let _turn = turn();
    let memory = Arc::new(Memory::default());
    // SAFETY: both backends allocate memory of this process, which each of them can use.
    let [home, other] = [(), ()].map(|()| OneOfSeveral(unsafe { Stream::new(memory.clone(), Plain) }));
    let array = Scope::new(NAME).recycle(Recycle::Keyed).run(|| Array::full(&home, 1000, 1u8)).unwrap();
    array.announce_read(&other).unwrap();
    drop((array, other));
    assert_eq!(ENDED.load(SeqCst), 0);
    gpucache::invalidate(NAME);
    assert_eq!(ENDED.load(SeqCst), 1);
    drop(home);
    gpucache::invalidate(NAME);
}
