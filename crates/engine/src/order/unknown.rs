//! Work on streams that this crate does not know. Memory that this work may use keeps its pages.
//!
//! This work was put on its stream before the array that it uses was dropped. So each free stretch carries the *moment* at which it was
//! freed (in its [`Tag`](super::Tag)). Before pages are unmapped, a *mark* is set behind all work that the device has got so far. Once the
//! mark is reached, no unknown work uses memory that was freed before the mark was set. Reuse of memory without unmapping needs no marks:
//! the program must order such work with the memory's next user.
//!
//! Frameworks do not keep to that rule: they order such work only with the later work of the stream that allocated the memory. Where one of
//! them frees memory ([`UnknownWork::is_unordered`]), other streams get it only once a mark after its free is reached.

use std::sync::Arc;

use crate::base::error::Result;
use crate::device::{IsDone, UnknownWork};

/// A time between two marks, as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FreeMoment(u64);

impl FreeMoment {
    /// Before all marks: the moment of newly mapped memory that nobody has used.
    pub(crate) const FIRST: FreeMoment = FreeMoment(0);
    /// After all marks.
    pub(crate) const LAST: FreeMoment = FreeMoment(u64::MAX);
}

/// The marks in a device's work.
pub(crate) struct Unknown {
    /// `None` on devices that are told of every use.
    work: Option<Arc<dyn UnknownWork>>,
    now: FreeMoment,
    /// No unknown work uses memory that was freed at this moment or before.
    settled: FreeMoment,
    /// The marks that were not reached at the last query.
    marks: Vec<(FreeMoment, IsDone)>,
    /// Whether a wait for these marks was in vain.
    are_slow: bool,
    /// A mark for which a request waited in vain for as long as requests wait. Until it is reached, none waits for marks.
    outlasted: FreeMoment,
}

/// The next step before memory may be unmapped that was freed up to some moment.
pub(crate) enum Due {
    /// Nothing: no unknown work uses the memory.
    Nothing,
    /// Wait until a mark is reached.
    Wait,
    /// Set a mark, while no lock is held.
    Mark(Arc<dyn UnknownWork>, FreeMoment),
    /// Give up: a wait for the marks was in vain, and they are not reached yet. Nobody waits for them again.
    GiveUp,
}

impl Unknown {
    /// For a device that may have the given unknown work; `None` if it is told of every use.
    pub(crate) fn of(work: Option<Arc<dyn UnknownWork>>) -> Unknown {
        let (settled, outlasted) = (FreeMoment::FIRST, FreeMoment::FIRST);
        Unknown { work, now: FreeMoment(1), settled, marks: Vec::new(), are_slow: false, outlasted }
    }

    /// The present moment.
    #[inline]
    pub(crate) fn now(&self) -> FreeMoment {
        self.now
    }

    /// No unknown work uses memory that was freed at this moment or before.
    pub(crate) fn settled(&self) -> FreeMoment {
        let is_possible = self.work.as_ref().is_some_and(|work| work.is_possible());
        if is_possible { self.settled } else { FreeMoment::LAST }
    }

    /// Whether another stream than the one that freed memory at this moment may get it, as far as unknown work is concerned.
    #[inline]
    pub(crate) fn may_pass_on(&self, freed: FreeMoment) -> bool {
        freed <= self.settled || !self.is_unordered()
    }

    /// Whether memory may be freed while unknown work still uses it.
    #[inline]
    pub(crate) fn is_unordered(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.is_unordered())
    }

    /// The last mark that was not reached at the last query. `None` if a request waited in vain for an earlier one.
    pub(crate) fn last_mark(&self) -> Option<FreeMoment> {
        self.marks.iter().map(|(moment, _)| *moment).max().filter(|_| self.may_outlast())
    }

    fn may_outlast(&self) -> bool {
        self.outlasted <= self.settled
    }

    /// Notes that a request waited for this mark in vain.
    pub(crate) fn outlasted_by(&mut self, mark: Option<FreeMoment>) {
        self.outlasted = self.outlasted.max(mark.unwrap_or(FreeMoment::FIRST));
    }

    /// Allows another mark, although a short wait for the earlier ones was in vain. Returns whether it was.
    pub(crate) fn try_again(&mut self) -> bool {
        self.may_outlast() && std::mem::take(&mut self.are_slow)
    }

    /// Queries which marks are reached, and waits for none.
    ///
    /// # Errors
    /// An error of the work. The marks are forgotten then.
    pub(super) fn look(&mut self) -> Result<()> {
        for (moment, is_reached) in std::mem::take(&mut self.marks) {
            match is_reached()? {
                true => self.settled = self.settled.max(moment),
                false => self.marks.push((moment, is_reached)),
            }
        }
        self.marks.retain(|(moment, _)| *moment > self.settled);
        self.are_slow &= !self.marks.is_empty();
        Ok(())
    }

    /// Queries the marks like [`look`](Unknown::look), and returns the next step for memory that was freed up to `moment`.
    ///
    /// # Errors
    /// An error of the work.
    pub(crate) fn due(&mut self, moment: FreeMoment) -> Result<Due> {
        self.look()?;
        let Some(work) = self.work.clone().filter(|_| self.settled() < moment) else { return Ok(Due::Nothing) };
        if self.are_slow {
            return Ok(Due::GiveUp);
        }
        if self.marks.iter().any(|(marked, _)| *marked >= moment) {
            return Ok(Due::Wait);
        }
        let marked = self.now;
        self.now = FreeMoment(self.now.0 + 1);
        Ok(Due::Mark(work, marked))
    }

    /// Adds a mark that was due and has been set.
    pub(crate) fn marked(&mut self, moment: FreeMoment, is_reached: IsDone) {
        self.marks.push((moment, is_reached));
    }

    /// Notes that a wait for the marks was in vain.
    pub(crate) fn give_up(&mut self) {
        self.are_slow = !self.marks.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use super::*;
    use crate::base::error::Error;

    /// A device that may have unknown work. Its marks are reached, or fail, when the test says so.
    #[derive(Debug, Default)]
    struct Device {
        is_possible: AtomicBool,
        is_unordered: AtomicBool,
        is_reached: Arc<AtomicBool>,
        fails: Arc<AtomicBool>,
    }

    impl UnknownWork for Device {
        fn note(&self) {
            self.is_possible.store(true, SeqCst);
        }

        fn is_possible(&self) -> bool {
            self.is_possible.load(SeqCst)
        }

        fn note_unordered(&self) {
            self.is_unordered.store(true, SeqCst);
        }

        fn is_unordered(&self) -> bool {
            self.is_unordered.load(SeqCst)
        }

        fn mark(&self) -> Result<Option<IsDone>> {
            let (is_reached, fails) = (self.is_reached.clone(), self.fails.clone());
            Ok(Some(Box::new(move || match fails.load(SeqCst) {
                true => Err(Error::device_failure("a device", "a question", "it was to fail")),
                false => Ok(is_reached.load(SeqCst)),
            })))
        }
    }

    fn device() -> (Arc<Device>, Unknown) {
        let device = Arc::new(Device::default());
        device.is_possible.store(true, SeqCst);
        (device.clone(), Unknown::of(Some(device)))
    }

    /// Sets the mark that is due.
    fn mark(unknown: &mut Unknown, moment: FreeMoment) {
        let Ok(Due::Mark(work, marked)) = unknown.due(moment) else { panic!("no mark is due") };
        unknown.marked(marked, work.mark().unwrap().unwrap());
    }

    #[test]
    fn a_mark_that_is_reached_settles_what_was_freed_before_it() {
        let (device, mut unknown) = device();
        let before = unknown.now();
        mark(&mut unknown, before);
        let after = unknown.now();
        assert!(before < after && unknown.settled() < before);
        assert!(matches!(unknown.due(before), Ok(Due::Wait)));
        device.is_reached.store(true, SeqCst);
        assert!(matches!(unknown.due(before), Ok(Due::Nothing)));
        assert!(before <= unknown.settled() && unknown.settled() < after);
        assert!(matches!(unknown.due(after), Ok(Due::Mark(..))), "freed behind the mark");
    }

    #[test]
    fn unordered_memory_is_passed_on_behind_a_mark() {
        let (device, mut unknown) = device();
        let moment = unknown.now();
        assert!(unknown.may_pass_on(moment), "all frees are ordered");
        device.note_unordered();
        assert!(!unknown.may_pass_on(moment) && unknown.may_pass_on(FreeMoment::FIRST));
        mark(&mut unknown, moment);
        device.is_reached.store(true, SeqCst);
        unknown.look().unwrap();
        assert!(unknown.may_pass_on(moment) && !unknown.may_pass_on(unknown.now()));
    }

    #[test]
    fn nothing_is_due_without_unknown_work() {
        let (device, mut unknown) = device();
        device.is_possible.store(false, SeqCst);
        assert!(matches!(unknown.due(unknown.now()), Ok(Due::Nothing)));
        assert_eq!((unknown.settled(), Unknown::of(None).settled()), (FreeMoment::LAST, FreeMoment::LAST));
    }

    #[test]
    fn a_slow_mark_is_waited_for_once() {
        let (device, mut unknown) = device();
        let moment = unknown.now();
        mark(&mut unknown, moment);
        unknown.give_up();
        assert!(matches!(unknown.due(moment), Ok(Due::GiveUp)));
        device.is_reached.store(true, SeqCst);
        assert!(matches!(unknown.due(moment), Ok(Due::Nothing)));
        assert!(matches!(unknown.due(unknown.now()), Ok(Due::Mark(..))), "the next one is waited for again");
    }

    #[test]
    fn a_mark_that_fails_is_put_anew() {
        let (device, mut unknown) = device();
        let moment = unknown.now();
        mark(&mut unknown, moment);
        device.fails.store(true, SeqCst);
        assert!(unknown.due(moment).is_err());
        assert!(matches!(unknown.due(moment), Ok(Due::Mark(..))));
    }
}
