//! Streams that use a block and that nobody has a handle of: they are shown, used, and may be gone.
//!
//! Such a stream cannot be asked later, so that its use is told by an event of this crate's, which cudarc records once it has
//! put its work there (`SyncOnDrop`). Each of them has one, so that none is forgotten for another.
//!
//! cudarc records it only while the stream's context object has streams of its own; otherwise the calling thread waits for
//! the stream, as soon as the work is there. Both are left out if the object keeps a failure; that one is taken before, and
//! where there is another one afterwards, the context is waited for.
//!
//! Invariants: a stream that is in the list is in it once. What is marked as used has an event that is behind all of it, or
//! a context object that keeps a failure, or has no streams any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cudarc::driver::{CudaEvent, CudaStream, SyncOnDrop};

use crate::device::Cuda;
use gpucache_engine::Result;
use gpucache_engine::base::sync::OnceLock;
use gpucache_engine::device::{EventRef, OwnEvent, RawStream};

/// As many streams stay known from one life of a block to the next. The same ones, shown again, then cost no new
/// events; but each keeps two events and a context object alive, and is looked through at every use.
const KEPT: usize = 4;

/// The streams that used a block.
#[derive(Default)]
pub(super) struct Passing(OnceLock<Box<Passer>>);

struct Passer {
    raw: RawStream,
    /// Of the block's own stream: what the use has to wait for.
    start: OwnEvent,
    /// Of the stream's context, and recorded there.
    end: CudaEvent,
    is_used: AtomicBool,
    is_writer: AtomicBool,
    /// Whether a use was left to the event, and not waited for.
    is_recorded: AtomicBool,
    next: OnceLock<Box<Passer>>,
}

impl Passing {
    /// Orders later work of `stream` behind all that is on `home` now, and later work of `home`, once it follows, behind what
    /// is put on the stream until the answer is dropped.
    pub(super) fn lend<'a>(
        &'a self,
        home: &Cuda,
        raw: RawStream,
        stream: &'a CudaStream,
        writes: bool,
    ) -> SyncOnDrop<'a> {
        home.0.take_kept(stream.context());
        let passer = self.passer(home, raw, stream).and_then(|passer| {
            home.0.lead(stream, &passer.start)?;
            if passer.is_used.load(Relaxed) {
                // The handle may be another stream's by now, and the event is about to be moved on.
                home.0.precede_by_event(stream, EventRef::of(&passer.end))?;
            }
            Ok(passer)
        });
        let passer = match passer {
            Ok(passer) => passer,
            Err(error) => {
                home.0.wait_instead(error);
                home.0.take_kept(stream.context());
                return SyncOnDrop::Sync(Some(stream));
            }
        };
        passer.is_used.store(true, Relaxed);
        if writes {
            passer.is_writer.store(true, Relaxed);
        }
        // The per-thread stream is another one on each thread, and all of them have one handle.
        match stream.context().is_managing_stream_synchronization() && !raw.is_per_thread() {
            true => {
                passer.is_recorded.store(true, Relaxed);
                SyncOnDrop::Record(Some((&passer.end, stream)))
            }
            false => SyncOnDrop::Sync(Some(stream)),
        }
    }

    /// Orders later work of `home` behind what they wrote.
    pub(super) fn follow_writes(&self, home: &Cuda) -> Result<()> {
        for passer in self.iter().filter(|passer| passer.is_writer.load(Relaxed)) {
            passer.follow(home)?;
            // Who writes borrows the array exclusively, so that none began meanwhile.
            passer.is_writer.store(false, Relaxed);
        }
        Ok(())
    }

    /// Orders later work of `home` behind all of their uses.
    pub(super) fn follow_uses(&mut self, home: &Cuda) -> Result<()> {
        for passer in self.iter().filter(|passer| passer.is_used.load(Relaxed)) {
            passer.follow(home)?;
            passer.forget();
        }
        if self.iter().count() > KEPT {
            self.0.take();
        }
        Ok(())
    }

    /// Waits on the calling thread for the contexts that they are of.
    pub(super) fn synchronize(&self, home: &Cuda) -> Result<()> {
        let mut used = self.iter().filter(|passer| passer.is_used.load(Relaxed));
        used.try_for_each(|passer| home.0.synchronize_context(passer.end.context()))
    }

    /// There is nothing to follow: all work is done.
    pub(super) fn forget_uses(&mut self) {
        self.iter().for_each(Passer::forget);
    }

    fn passer(&self, home: &Cuda, raw: RawStream, stream: &CudaStream) -> Result<&Passer> {
        // Of the same context object, as that keeps what recording the event meets.
        let is_it = |passer: &Passer| passer.raw == raw && Arc::ptr_eq(passer.end.context(), stream.context());
        if let Some(passer) = self.iter().find(|passer| is_it(passer)) {
            return Ok(passer);
        }
        let start = home.0.new_event()?;
        let end = stream.context().new_event(None).map_err(|error| home.0.failure("making an event", error))?;
        let [is_used, is_writer, is_recorded] = [(); 3].map(|()| AtomicBool::new(false));
        let mut new =
            Some(Box::new(Passer { raw, start, end, is_used, is_writer, is_recorded, next: OnceLock::new() }));
        let mut place = &self.0;
        loop {
            // Another thread may have appended meanwhile, the same stream even.
            match (place.get(), new.take()) {
                (Some(passer), _) if is_it(passer) => return Ok(passer),
                (Some(passer), kept) => (place, new) = (&passer.next, kept),
                (None, Some(passer)) => new = place.set(passer).err(),
                (None, None) => {}
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Passer> {
        let first = self.0.get().map(|passer| &**passer);
        std::iter::successors(first, |passer| passer.next.get().map(|next| &**next))
    }
}

impl Passer {
    fn follow(&self, home: &Cuda) -> Result<()> {
        let context = self.end.context();
        if home.0.take_kept(context) {
            // The event may not have been recorded, or the stream not waited for.
            home.0.synchronize_context(context)?;
        }
        if !self.is_recorded.load(Relaxed) {
            return Ok(());
        }
        home.0.follow_event(EventRef::of(&self.end))?;
        if context.is_managing_stream_synchronization() {
            return Ok(());
        }
        // The last of its streams went before the event was recorded, or afterwards.
        match context.cu_ctx() == home.stream().context().cu_ctx() {
            true => home.0.follow_context(),
            false => home.0.synchronize_context(context),
        }
    }

    fn forget(&self) {
        self.is_used.store(false, Relaxed);
        self.is_writer.store(false, Relaxed);
        self.is_recorded.store(false, Relaxed);
    }
}
