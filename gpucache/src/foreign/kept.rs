//! Blocks that were freed without a stream while a graph was captured. Before such a block goes back, the host waits for the context, which would
//! end every capture. So the block waits for the end of the captures.

use std::mem::take;

use gpucache_engine::base::sync::{Mutex, lock};
use gpucache_engine::cache::Block;
use gpucache_engine::device::{Handle, Stream};

static KEPT: Mutex<Vec<Block>> = Mutex::new(Vec::new());

pub(super) fn keep(block: Block) {
    lock(&KEPT).push(block);
}

/// Frees the blocks, unless a graph is captured. Those for which the driver refuses to wait stay. The same context is current afterwards.
pub(super) fn free() {
    if Stream::is_any_in_capture() {
        return;
    }
    // Taken out first: freed memory may call code of the program, which must find no lock held.
    let mut kept = take(&mut *lock(&KEPT));
    Handle::keeping_current(|| {
        let done: Vec<Block> = kept.extract_if(.., |block| Handle::wait_for_context_of(block.stream())).collect();
        lock(&KEPT).append(&mut kept);
        drop(done);
    });
}
