//! Tracks uses of a block, in its current life, by streams that the engine does not know.
//!
//! A stream that is shown and has a handle needs none of this, because the block knows it. Other uses are of three kinds:
//!
//! - A stream that is shown but has no handle may be gone later. It is put behind the block's own stream. The calling thread waits for
//!   it as soon as the work is queued (`SyncOnDrop`). cudarc skips this wait if the stream's context object keeps a failure at that time.
//!   In that case, the context is waited for when the block's own stream has to come behind the use.
//! - cudarc's kernel launches show no stream. They use the events of a slice (`slices`).
//! - A caller with a slice, or with cudarc's view of one, can use it any number of times, and its events know only the last use. The same
//!   holds for launches by context objects that record no events. The loan of such a slice or view is *untold*. At its end, the block's
//!   own stream waits for all work that the context has by then, by one event of the driver.
//!
//! Invariants: each loan is noted here before it is used. When a write or the block's next life begins, the block's own stream is behind
//! all loans. When a read begins, it is behind all loans that write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, SyncOnDrop};

use super::slices::{Slices, TrackedSlice};
use crate::array::Element;
use crate::device::{Cuda, Device};
use gpucache_engine::base::sync::{Mutex, OnceLock, lock};
use gpucache_engine::cache::Block;
use gpucache_engine::device::process_exits;
use gpucache_engine::record::View;
use gpucache_engine::{Error, Result};

/// Uses of a block by streams that it does not know.
pub(super) struct ForeignUses<T: Element> {
    /// The block's own stream.
    home: Cuda,
    /// Contexts of the streams without a handle that were shown.
    shown: Mutex<Vec<Arc<CudaContext>>>,
    slices: OnceLock<Slices<T>>,
    reads_untold: AtomicBool,
    writes_untold: AtomicBool,
    owner: Option<MemoryOwner>,
}

/// The owner of memory that another library allocated. The call makes the calling thread wait for all work of the stream, which is behind all
/// uses of the memory, and then frees the memory. If it fails, the memory is never freed. A drop frees the memory without a wait.
pub(crate) type MemoryOwner = Box<dyn FnOnce(&Cuda) -> Result<()> + Send + Sync>;

impl<T: Element> ForeignUses<T> {
    pub(super) fn new(home: &Cuda) -> ForeignUses<T> {
        ForeignUses {
            home: home.clone(),
            shown: Mutex::default(),
            slices: OnceLock::new(),
            reads_untold: AtomicBool::new(false),
            writes_untold: AtomicBool::new(false),
            owner: None,
        }
    }

    /// Uses of memory that `owner` frees, once all work that uses the memory is done.
    #[cfg(feature = "nccl")]
    pub(super) fn owned_by(home: &Cuda, owner: MemoryOwner) -> ForeignUses<T> {
        let mut uses = ForeignUses::new(home);
        uses.owner = Some(owner);
        uses
    }

    /// Adopts a slice with its memory. The block's stream comes behind the uses that the slice's events know.
    pub(super) fn adopting(home: &Cuda, slice: CudaSlice<T>) -> ForeignUses<T> {
        let slices = Slices::new(TrackedSlice::of(slice), true);
        slices.first.follow(home).unwrap_or_else(|error| home.0.wait_instead(error));
        let mut uses = ForeignUses::new(home);
        uses.slices = OnceLock::from(slices);
        uses
    }

    /// Orders later work of a stream without a handle behind all work on the block's own stream. When the returned guard is dropped, the
    /// calling thread waits for the stream.
    pub(super) fn wait_around<'a>(&self, stream: &'a CudaStream) -> SyncOnDrop<'a> {
        self.home.0.take_kept(stream.context());
        if let Err(error) = self.home.0.lead(stream) {
            self.home.0.wait_instead(error);
            self.home.0.take_kept(stream.context());
        }
        let mut shown = lock(&self.shown);
        if !shown.iter().any(|context| Arc::ptr_eq(context, stream.context())) {
            shown.push(stream.context().clone());
        }
        SyncOnDrop::Sync(Some(stream))
    }

    /// Waits for contexts that keep a failure, because cudarc may not have waited for one of their streams.
    fn follow_shown(&self) -> Result<()> {
        let failed = |context: &&Arc<CudaContext>| self.home.0.take_kept(context);
        let failed: Vec<_> = lock(&self.shown).iter().filter(failed).cloned().collect();
        failed.iter().try_for_each(|context| self.home.0.synchronize_context(context))
    }

    /// Called after a failure to order streams: waits for all work, and keeps the failure for the next fallible call. The order
    /// is then correct, but the program has to learn of the failure.
    fn wait_for_all(&self, error: Error) -> Result<()> {
        self.home.0.synchronize_gpu()?;
        let shown = lock(&self.shown).clone();
        shown.iter().try_for_each(|context| self.home.0.synchronize_context(context))?;
        self.home.stream_handle().keep(error);
        Ok(())
    }

    /// A slice for reads, behind all work on the block's own stream: for one use that cudarc reports, or for any
    /// number of unreported uses.
    pub(super) fn reading(&self, block: &Block, is_untold: bool) -> &TrackedSlice<T> {
        let slices = self.slices(block);
        let slice = slices.reading(&self.home, block).unwrap_or_else(|error| {
            self.home.0.wait_instead(error);
            self.note_untold_read();
            &slices.first
        });
        if is_untold || !slice.has_events() {
            self.note_untold_read();
        }
        slice
    }

    /// Notes that the loan of this slice is used again, behind all work that is on the block's own stream now.
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

    /// The slice for writes. The block's own stream must be behind all uses.
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
        Some(slices.first.slice_mut())
    }

    /// The slices, which are created at the first call.
    pub(super) fn slices(&self, block: &Block) -> &Slices<T> {
        self.slices.get_or_init(|| Slices::new(TrackedSlice::over(&self.home, block), false))
    }

    /// Turns the memory into a slice that owns it.
    pub(super) fn into_slice(mut self) -> Result<Option<CudaSlice<T>>> {
        // If this fails, nobody knows when the uses end, so the memory is never used again.
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
            // A writer borrows the array exclusively, so no new write began meanwhile.
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

    /// Waits for all work that uses the memory, and frees it. If the wait fails, the memory is never freed.
    fn give_up_owner(&mut self) {
        if let Some(Err(error)) = self.owner.take().map(|free| free(&self.home)) {
            self.home.stream_handle().keep(error);
        }
    }

    fn forget(&mut self) {
        (*self.reads_untold.get_mut(), *self.writes_untold.get_mut()) = (false, false);
        lock(&self.shown).clear();
    }
}

impl<T: Element> View for ForeignUses<T> {
    fn is_pinned(&self) -> bool {
        self.owner.is_some()
    }

    fn follow_writes(&self) -> Result<()> {
        // Loans stay noted, because others may still use them.
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
        // `CudaSlice` frees in the current context, and its waits would return the failure that the context keeps.
        self.home.0.make_current();
        if let Some(slices) = self.slices.take() {
            slices.release();
        }
        self.give_up_owner();
        self.home.0.take_kept(self.home.stream().context());
    }
}
