//! The return stacks: blocks dropped by threads that do not own their home cache. Any thread pushes, one takes all.
//!
//! Pushing is Treiber's stack; since nobody pops a single record but everything is taken at once, there is no ABA
//! problem. (R. K. Treiber, *Systems Programming: Coping with Parallelism*, IBM, 1986.) There are several stacks, so that
//! threads that drop at the same time seldom write the same line of the processor's cache, or the one beside it, which comes
//! with it. (With one stack, eight threads took 950 ns a drop; with several 23.)
//!
//! Invariant: a record that was pushed before anybody took is seen by whoever finds `has_any` set and takes, or by
//! whoever takes next: it is set after each push, and reset before each taking. `interleavings` checks this with loom.
#![allow(unsafe_code)]

use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::base::amounts::total;
use crate::base::sync::{AtomicBool, AtomicPtr};
use crate::record::Record;

/// What lies on the stacks, linked through itself.
pub(crate) trait Node {
    /// The node under it. Read and written by whoever owns the node, and by nobody while it lies on a stack.
    fn next(&mut self) -> &mut *mut Self;

    fn bytes(&self) -> usize;
}

#[repr(align(128))]
pub(crate) struct Returns<N = Record> {
    /// Whether there may be something on a stack. Written seldom, so that all may look at it.
    has_any: AtomicBool,
    stacks: [ReturnStack<N>; RETURN_STACKS],
}

/// As many as threads commonly drop at once: eight of them took 950 ns a drop with one stack, and 23 with eight. Models have as
/// few as show what several do.
const RETURN_STACKS: usize = if cfg!(all(loom, test)) { 2 } else { 8 };

#[repr(align(128))]
struct ReturnStack<N> {
    head: AtomicPtr<N>,
    /// What lies on it, for statistics.
    blocks: std::sync::atomic::AtomicU64,
    bytes: std::sync::atomic::AtomicU64,
}

impl Node for Record {
    fn next(&mut self) -> &mut *mut Record {
        self.next.get_mut()
    }

    fn bytes(&self) -> usize {
        Record::bytes(self)
    }
}

impl<N: Node> Returns<N> {
    pub(crate) fn new() -> Returns<N> {
        Returns { has_any: AtomicBool::new(false), stacks: std::array::from_fn(|_| ReturnStack::new()) }
    }

    /// Pushes a record; `thread` names the calling thread.
    pub(crate) fn push(&self, thread: u64, record: Box<N>) {
        self.stacks[thread as usize % RETURN_STACKS].push(record);
        // Sequentially consistent, as the push was, against the owner's look after it left: see `Hold::exit`.
        if !self.has_any.load(SeqCst) {
            self.has_any.store(true, SeqCst);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_any.load(SeqCst)
    }

    /// Takes everything, the newest of each stack first.
    pub(crate) fn take(&self) -> impl Iterator<Item = Box<N>> {
        let has_any = !self.is_empty() && self.has_any.swap(false, SeqCst);
        let stacks = if has_any { &self.stacks[..] } else { &[] };
        stacks.iter().flat_map(ReturnStack::take)
    }

    pub(crate) fn blocks(&self) -> u64 {
        total(self.stacks.iter().map(|stack| stack.blocks.load(Relaxed)))
    }

    pub(crate) fn bytes(&self) -> u64 {
        total(self.stacks.iter().map(|stack| stack.bytes.load(Relaxed)))
    }
}

impl<N: Node> ReturnStack<N> {
    fn new() -> ReturnStack<N> {
        ReturnStack { head: AtomicPtr::new(null_mut()), blocks: Default::default(), bytes: Default::default() }
    }

    fn push(&self, mut record: Box<N>) {
        self.blocks.fetch_add(1, Relaxed);
        self.bytes.fetch_add(record.bytes() as u64, Relaxed);
        let mut head = self.head.load(Relaxed);
        loop {
            *record.next() = head;
            let pushed = Box::into_raw(record);
            match self.head.compare_exchange_weak(head, pushed, SeqCst, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
            // SAFETY: the exchange failed, so the pointer of `into_raw` just above was not published.
            record = unsafe { Box::from_raw(pushed) };
        }
    }

    fn take(&self) -> TakenAll<'_, N> {
        TakenAll { next: self.head.swap(null_mut(), SeqCst), stack: self }
    }
}

/// Records that were taken off a stack; owned by this iterator until it hands them out.
struct TakenAll<'a, N: Node> {
    next: *mut N,
    stack: &'a ReturnStack<N>,
}

impl<N: Node> Iterator for TakenAll<'_, N> {
    type Item = Box<N>;

    fn next(&mut self) -> Option<Box<N>> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: `push` made the pointer by `into_raw`; taking the head unlinked it and all behind it from the stack,
        // so this iterator alone has it. The exchange's ordering makes `next` and the record's contents visible.
        let mut record = unsafe { Box::from_raw(self.next) };
        self.next = std::mem::replace(record.next(), null_mut());
        self.stack.blocks.fetch_sub(1, Relaxed);
        self.stack.bytes.fetch_sub(record.bytes() as u64, Relaxed);
        Some(record)
    }
}

impl<N: Node> Drop for TakenAll<'_, N> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
