//! Streams whose memory is reserved: each over the queue of another one, its home, and nobody else's until the reservation
//! ends.
//!
//! Invariants: while a reservation is made, its home's notice names it, and what is allocated on the home is allocated on it;
//! what is allocated on it later is allocated on the home.
#![cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "graphs alone reserve memory, and CUDA alone has them"))]

use std::any::Any;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError};

use super::{NEXT_STREAM, NOT_READY, Stream, StreamState};
use crate::base::error::{Error, Result};
use crate::base::sync::Mutex;

/// What a stream has whose memory is reserved.
pub(super) struct Reserved {
    /// The stream over whose queue it is.
    home: Stream,
    /// What is kept until the reservation ends.
    kept: Mutex<Option<Kept>>,
}

/// What is dropped once a reservation has ended.
pub(crate) type Kept = Vec<Box<dyn Any + Send>>;

impl Stream {
    /// Another stream over the same queue, whose memory is nobody else's until the reservation ends. Whatever is allocated on
    /// this one is allocated on that one from now on.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) if there is one already.
    pub(crate) fn reserve(&self) -> Result<Stream> {
        let inner = &*self.0;
        let mut notice = self.notice();
        if notice.reservation.is_some() || inner.reserved.is_some() {
            return Err(Error::unavailable(
                "a capture of the stream",
                "the stream is captured already",
                "end that capture first, or capture another stream",
            ));
        }
        let new = Stream(Arc::new(StreamState {
            id: NEXT_STREAM.fetch_add(1, Relaxed),
            queue: inner.id,
            memory: inner.memory.clone(),
            watches: inner.watches,
            runs_closures: inner.runs_closures,
            can_capture: inner.can_capture,
            ready_id: AtomicU64::new(NOT_READY),
            epoch: Arc::default(),
            // Whoever works on the one sees to the other.
            wanted: inner.wanted.clone(),
            has_notice: AtomicBool::new(true),
            notice: Mutex::default(),
            reserved: Some(Reserved { home: self.clone(), kept: Mutex::new(Some(Vec::new())) }),
            by_thread: None,
            backend: inner.backend.clone(),
        }));
        notice.reservation = Some(new.clone());
        self.tell(&notice);
        Ok(new)
    }

    /// What is allocated from now on is not reserved any more.
    pub(crate) fn end_reserving(&self) {
        let mut notice = self.notice();
        notice.reservation = None;
        self.tell(&notice);
    }

    /// The stream by which what is allocated now is reserved.
    #[inline]
    pub(crate) fn reservation(&self) -> Option<Stream> {
        if self.has_notice() { self.find_reservation() } else { None }
    }

    #[cold]
    fn find_reservation(&self) -> Option<Stream> {
        let home = self.0.reserved.as_ref().map_or(self, |reserved| &reserved.home);
        home.notice().reservation.clone()
    }

    /// The stream for what is allocated on this one now, if that is another one: a reservation's, or after one its home.
    pub(crate) fn instead(&self) -> Option<Stream> {
        self.reservation().or_else(|| self.0.reserved.as_ref().map(|reserved| reserved.home.clone()))
    }

    /// Whether its memory is reserved.
    #[inline]
    pub(crate) fn is_reserved(&self) -> bool {
        self.0.reserved.is_some()
    }

    /// Keeps something until the reservation ends; hands it out if that has ended, or never was.
    pub(crate) fn keep_reserved<T: Any + Send>(&self, what: Box<T>) -> Result<(), Box<T>> {
        let Some(Reserved { kept, .. }) = &self.0.reserved else { return Err(what) };
        match &mut *kept.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(kept) => kept.push(what),
            None => return Err(what),
        }
        Ok(())
    }

    /// Ends the reservation, and hands out what was kept.
    pub(crate) fn end_reservation(&self) -> Kept {
        let kept = self.0.reserved.as_ref().map(|reserved| &reserved.kept);
        let kept = kept.and_then(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner).take());
        kept.unwrap_or_default()
    }
}
