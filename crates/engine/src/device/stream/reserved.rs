//! Streams with reserved memory. Each uses the queue of another stream, its home. Until the reservation ends, nobody else gets its memory.
//!
//! Invariants: while a reservation is made, the notice of its home names it, and allocations on the home go to it. After that, allocations
//! on the reservation's stream go to the home.
#![cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "graphs alone reserve memory, and CUDA alone has them"))]

use std::any::Any;
use std::sync::atomic::Ordering::Relaxed;

use super::{NEXT_STREAM, Stream, StreamState};
use crate::base::error::Result;
use crate::base::sync::{Mutex, lock};

/// The state of a stream whose memory is reserved.
pub(super) struct Reserved {
    /// The stream whose queue it uses.
    home: Stream,
    /// Values that are kept until the reservation ends.
    kept: Mutex<Option<Kept>>,
}

/// Values that are dropped once a reservation has ended.
pub(crate) type Kept = Vec<Box<dyn Any + Send>>;

impl Stream {
    /// Makes another stream over the same queue. Nobody else gets its memory until the reservation ends. Allocations on `self` go to the
    /// new stream from now on.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if there is a reservation already.
    pub(crate) fn reserve(&self) -> Result<Stream> {
        let mut notice = self.notice();
        self.refuse_second_capture(&notice)?;
        let new = self.reserved_twin(self.0.id);
        notice.reservation = Some(new.clone());
        self.tell(&notice);
        Ok(new)
    }

    /// Another stream over the same queue, which nobody's allocations go to. The work that uses its memory may be launched on any other queue,
    /// so memory counts as one of another queue.
    pub(crate) fn reserved_apart(&self) -> Stream {
        self.reserved_twin(NEXT_STREAM.fetch_add(1, Relaxed))
    }

    /// Another stream over the same queue, which counts as the queue of this number. Nobody else gets its memory until its reservation ends.
    fn reserved_twin(&self, queue: u64) -> Stream {
        let StreamState { memory, backend, wanted, .. } = &*self.0;
        let reserved = Reserved { home: self.clone(), kept: Mutex::new(Some(Vec::new())) };
        // A thread that works on either stream ends the epochs of both.
        Stream::made(memory.clone(), backend.clone(), Some(queue), wanted.clone(), Some(reserved))
    }

    /// Later allocations on this reservation's home are no longer reserved for it. Another reservation of the home stays open. Values that
    /// were kept behind the capture are dropped now, so the driver must have ended it.
    pub(crate) fn end_reserving(&self) {
        let Some(Reserved { home, .. }) = &self.0.reserved else { return };
        let mut notice = home.notice();
        if notice.reservation.take_if(|open| open.id() == self.id()).is_some() {
            home.tell(&notice);
            let kept = std::mem::take(&mut notice.kept);
            drop(notice);
            drop(kept);
        }
    }

    /// The stream whose queue this one uses: itself, except for the stream of a reservation.
    #[doc(hidden)]
    #[inline]
    pub fn home(&self) -> &Stream {
        self.0.reserved.as_ref().map_or(self, |reserved| &reserved.home)
    }

    /// Whether this is the stream of a reservation on the queue of `home`.
    #[doc(hidden)]
    pub fn is_reserved_on(&self, home: &Stream) -> bool {
        self.0.reserved.as_ref().is_some_and(|reserved| reserved.home.id() == home.id())
    }

    /// The stream of the reservation that gets allocations now.
    #[inline]
    pub(crate) fn reservation(&self) -> Option<Stream> {
        if self.has_notice() { self.find_reservation() } else { None }
    }

    #[cold]
    fn find_reservation(&self) -> Option<Stream> {
        self.home().notice().reservation.clone()
    }

    /// The stream that gets allocations instead of this one, if any: the reservation's stream, or the home of a reservation that is made.
    pub(crate) fn instead(&self) -> Option<Stream> {
        self.reservation().or_else(|| self.0.reserved.as_ref().map(|reserved| reserved.home.clone()))
    }

    /// Whether the memory of this stream is reserved.
    #[inline]
    pub(crate) fn is_reserved(&self) -> bool {
        self.0.reserved.is_some()
    }

    /// Keeps a value until the reservation ends. Returns the value if the reservation has ended or never existed.
    pub(crate) fn keep_reserved<T: Any + Send>(&self, what: Box<T>) -> Result<(), Box<T>> {
        let Some(Reserved { kept, .. }) = &self.0.reserved else { return Err(what) };
        match &mut *lock(kept) {
            Some(kept) => kept.push(what),
            None => return Err(what),
        }
        Ok(())
    }

    /// Ends the reservation and returns the kept values.
    pub(crate) fn end_reservation(&self) -> Kept {
        let kept = self.0.reserved.as_ref().map(|reserved| &reserved.kept);
        let kept = kept.and_then(|kept| lock(kept).take());
        kept.unwrap_or_default()
    }
}
