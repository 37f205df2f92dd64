//! What a block keeps of uses by streams that the engine does not know, in this life.
//!
//! A stream that is shown and has a handle needs none of this: the block knows it. The other uses are of three kinds:
//!
//! - A stream that is shown and has no handle may be gone later. It is put behind the block's own stream, and the calling thread waits for
//!   the stream as soon as the work is there (`SyncOnDrop`). cudarc leaves that out if the stream's context object keeps a failure by then:
//!   then the context is waited for when the block's own stream has to be behind the use.
//! - cudarc's kernel launches show no stream, and go by the events of a slice (`slices`).
//! - Whoever has a slice, or cudarc's view of one, can use it any number of times, of which its events know the last; likewise launches by
//!   context objects that record no events. Such a loan is *untold*: at its end the block's own stream waits for all that the context was
//!   given until then, by one event of the driver's.
//!
//! Invariants: what was lent is noted here before it is used. The block's own stream is behind all of it when a write,
//! or the block's next life, begins; and behind the writes among it when a read begins.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, SyncOnDrop};

use super::slices::{Slices, TrackedSlice};
use crate::array::{Element, len_of};
use crate::device::{Cuda, Device};
use gpucache_engine::base::sync::{Mutex, MutexGuard, OnceLock};
use gpucache_engine::cache::Block;
use gpucache_engine::device::process_exits;
use gpucache_engine::record::View;
use gpucache_engine::{Error, Result};

/// A block's uses by streams that it does not know.
pub(super) struct ForeignUses<T: Element> {
    /// The block's own stream.
    home: Cuda,
    /// Contexts of streams without a handle that were shown.
    shown: Mutex<Vec<Arc<CudaContext>>>,
    slices: OnceLock<Slices<T>>,
    reads_untold: AtomicBool,
    writes_untold: AtomicBool,
}

impl<T: Element> ForeignUses<T> {
    pub(super) fn new(home: &Cuda) -> ForeignUses<T> {
        ForeignUses {
            home: home.clone(),
            shown: Mutex::default(),
            slices: OnceLock::new(),
            reads_untold: AtomicBool::new(false),
            writes_untold: AtomicBool::new(false),
        }
    }

    /// With somebody's slice and its memory, behind what its events know of.
    pub(super) fn adopting(home: &Cuda, slice: CudaSlice<T>) -> ForeignUses<T> {
        let slices = Slices::adopting(slice);
        slices.first().follow(home).unwrap_or_else(|error| home.0.wait_instead(error));
        let mut uses = ForeignUses::new(home);
        uses.slices = OnceLock::from(slices);
        uses
    }

    fn shown(&self) -> MutexGuard<'_, Vec<Arc<CudaContext>>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders later work of a stream without a handle behind all that is on the block's own stream. The calling thread waits for the stream
    /// when the answer is dropped.
    pub(super) fn wait_around<'a>(&self, stream: &'a CudaStream) -> SyncOnDrop<'a> {
        self.home.0.take_kept(stream.context());
        let led = self.home.0.new_event().and_then(|event| self.home.0.lead(stream, &event));
        if let Err(error) = led {
            self.home.0.wait_instead(error);
            self.home.0.take_kept(stream.context());
        }
        let mut shown = self.shown();
        if !shown.iter().any(|context| Arc::ptr_eq(context, stream.context())) {
            shown.push(stream.context().clone());
        }
        SyncOnDrop::Sync(Some(stream))
    }

    /// Waits for contexts that keep a failure: a stream of theirs may not have been waited for.
    fn follow_shown(&self) -> Result<()> {
        let failed = |context: &&Arc<CudaContext>| self.home.0.take_kept(context);
        let failed: Vec<_> = self.shown().iter().filter(failed).cloned().collect();
        failed.iter().try_for_each(|context| self.home.0.synchronize_context(context))
    }

    /// After a failure to order: waits for all work, and keeps the failure for the next fallible call. All is in order, but somebody has
    /// to know what went wrong.
    fn wait_for_all(&self, error: Error) -> Result<()> {
        self.home.0.synchronize_gpu()?;
        let shown = self.shown().clone();
        shown.iter().try_for_each(|context| self.home.0.synchronize_context(context))?;
        self.home.stream_handle().keep(error);
        Ok(())
    }

    /// A slice for reads, behind all that is on the block's own stream: for one use that cudarc tells of, or for any
    /// number that nobody does.
    pub(super) fn reading(&self, block: &Block, is_untold: bool) -> &TrackedSlice<T> {
        let slices = self.slices(block);
        let slice = slices.reading(&self.home, block.is_bare()).unwrap_or_else(|error| {
            self.home.0.wait_instead(error);
            self.note_untold_read();
            slices.first()
        });
        if is_untold || !slice.has_events() {
            self.note_untold_read();
        }
        slice
    }

    /// What a slice was lent for before happens again, behind all that is on the block's own stream now.
    pub(super) fn read_again(&self, slice: &TrackedSlice<T>) {
        slice.announce(&self.home).unwrap_or_else(|error| self.home.0.wait_instead(error));
        self.note_untold_read();
    }

    fn note_untold_read(&self) {
        self.home.0.note_unknown_work();
        if self.home.stream().context().is_event_tracking() {
            self.reads_untold.store(true, Relaxed);
        }
    }

    /// The slice for writes, which the block's own stream has to be able to give: it is behind all uses.
    pub(super) fn writing(&mut self, is_untold: bool) -> Option<&mut CudaSlice<T>> {
        self.home.0.note_unknown_work();
        let slices = self.slices.get_mut()?;
        match slices.writing(&self.home) {
            Ok(slice) if !is_untold && slice.has_events() => {}
            Ok(_) => *self.writes_untold.get_mut() = self.home.stream().context().is_event_tracking(),
            Err(error) => {
                *self.writes_untold.get_mut() = true;
                self.home.0.wait_instead(error);
            }
        }
        Some(slices.first_mut().slice_mut())
    }

    /// Makes the slices, if there are none yet.
    pub(super) fn slices(&self, block: &Block) -> &Slices<T> {
        self.slices.get_or_init(|| Slices::over(&self.home, block.address(), len_of::<T>(block)))
    }

    /// The memory as a slice that owns it.
    pub(super) fn into_slice(mut self) -> Result<Option<CudaSlice<T>>> {
        self.follow_uses()?;
        let slices = self.slices.take();
        slices.map(|slices| slices.into_slice(&self.home)).transpose()
    }

    fn try_follow_writes(&self) -> Result<()> {
        self.follow_shown()?;
        if let Some(slices) = self.slices.get() {
            slices.follow_writes(&self.home)?;
        }
        if self.writes_untold.load(Relaxed) {
            self.home.0.follow_context()?;
            // Who writes borrows the array exclusively, so that none began meanwhile.
            self.writes_untold.store(false, Relaxed);
        }
        Ok(())
    }

    fn try_follow_uses(&mut self) -> Result<()> {
        self.follow_shown()?;
        if let Some(slices) = self.slices.get_mut() {
            slices.follow_uses(&self.home)?;
        }
        if *self.reads_untold.get_mut() || *self.writes_untold.get_mut() {
            self.home.0.follow_context()?;
        }
        self.forget();
        Ok(())
    }

    fn forget(&mut self) {
        (*self.reads_untold.get_mut(), *self.writes_untold.get_mut()) = (false, false);
        self.shown().clear();
    }
}

impl<T: Element> View for ForeignUses<T> {
    fn follow_writes(&self) -> Result<()> {
        // What was lent stays noted: others may be about to use it.
        self.try_follow_writes().or_else(|error| self.wait_for_all(error))
    }

    fn follow_uses(&mut self) -> Result<()> {
        self.try_follow_uses().or_else(|error| {
            self.wait_for_all(error)?;
            if let Some(slices) = self.slices.get_mut() {
                slices.forget_uses();
            }
            self.forget();
            Ok(())
        })
    }
}

impl<T: Element> Drop for ForeignUses<T> {
    fn drop(&mut self) {
        if process_exits() {
            return;
        }
        if let Err(error) = self.follow_uses() {
            self.home.stream_handle().keep(error);
        }
        // `CudaSlice` frees in whatever context is current, and its waits would meet what is kept.
        self.home.0.make_current();
        if let Some(slices) = self.slices.take() {
            slices.release();
        }
        self.home.0.take_kept(self.home.stream().context());
    }
}
