//! The return stack: blocks dropped by threads that do not own their home cache. Any thread pushes, one takes all.
//!
//! Pushing is Treiber's stack; since nobody pops a single record but everything is taken at once, there is no ABA
//! problem. (R. K. Treiber, *Systems Programming: Coping with Parallelism*, IBM, 1986.)
#![allow(unsafe_code)]

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::record::Record;

#[derive(Default)]
pub(super) struct Returns {
    head: AtomicPtr<Record>,
    /// What lies on the stack, for statistics.
    pub(super) blocks: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Returns {
    pub(super) fn push(&self, mut record: Box<Record>) {
        self.blocks.fetch_add(1, Relaxed);
        self.bytes.fetch_add(record.bytes() as u64, Relaxed);
        let mut head = self.head.load(Relaxed);
        loop {
            *record.next.get_mut() = head;
            let pushed = Box::into_raw(record);
            // Sequentially consistent, against the owner's look at the stack after it left: see `Cache::leave`.
            match self.head.compare_exchange_weak(head, pushed, SeqCst, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
            // SAFETY: the exchange failed, so the pointer of `into_raw` just above was not published.
            record = unsafe { Box::from_raw(pushed) };
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head.load(SeqCst).is_null()
    }

    /// Takes everything, the newest first.
    pub(super) fn take(&self) -> Taken<'_> {
        Taken { next: self.head.swap(null_mut(), SeqCst), returns: self }
    }
}

/// Records that were taken off the stack; owned by this iterator until it hands them out.
pub(super) struct Taken<'a> {
    next: *mut Record,
    returns: &'a Returns,
}

impl Iterator for Taken<'_> {
    type Item = Box<Record>;

    fn next(&mut self) -> Option<Box<Record>> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: `push` made the pointer by `into_raw`; taking the head unlinked it and all behind it from the stack,
        // so this iterator alone has it. The exchange's ordering makes `next` and the record's contents visible.
        let mut record = unsafe { Box::from_raw(self.next) };
        self.next = std::mem::replace(record.next.get_mut(), null_mut());
        self.returns.blocks.fetch_sub(1, Relaxed);
        self.returns.bytes.fetch_sub(record.bytes() as u64, Relaxed);
        Some(record)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
