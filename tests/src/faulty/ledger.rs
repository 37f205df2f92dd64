//! The books of a [`Faulty`](super::Faulty) device: its calls, its live blocks, the next call to fail, and the broken rules. Pure
//! data: it touches no memory, and allocates only for blocks and broken rules.

use std::collections::BTreeMap;
use std::fmt;

/// The alignment of every block.
pub(super) const ALIGNMENT: usize = 256;

/// A kind of call that the engine makes to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Call {
    Allocate,
    Free,
    Fill,
    Write,
    Read,
    Copy,
    Synchronize,
    NewEvent,
    Record,
    Query,
    Wait,
    Copies,
}

/// How many calls of each kind were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls([u64; 12]);

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A failure of the device.
    Device,
    /// Too little memory.
    OutOfMemory,
}

/// The calls that have to fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    at: u64,
    only: Option<Call>,
    for_ever: bool,
    failure: Failure,
}

/// A range of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) address: u64,
    pub(super) bytes: usize,
}

pub(super) struct Ledger {
    pub(super) limit: usize,
    /// Whether streams use each other's memory, as the streams of a range do.
    pub(super) is_shared: bool,
    calls: Calls,
    fault: Option<Fault>,
    failures: u64,
    /// Live blocks by address: their bytes, and the stream that allocated them.
    live: BTreeMap<u64, (usize, u64)>,
    held: usize,
    violations: Vec<String>,
}

impl Calls {
    /// The calls of one kind.
    pub fn of(&self, call: Call) -> u64 {
        self.0[call as usize]
    }

    /// The calls of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Fault {
    /// The call number `at` fails, counted from 1.
    pub fn once(at: u64, failure: Failure) -> Fault {
        Fault { at, only: None, for_ever: false, failure }
    }

    /// The call number `at` fails, counted from 1, and all after it.
    pub fn for_ever(at: u64, failure: Failure) -> Fault {
        Fault { for_ever: true, ..Fault::once(at, failure) }
    }

    /// Only calls of this kind count and fail.
    pub fn only(self, call: Call) -> Fault {
        Fault { only: Some(call), ..self }
    }
}

impl Ledger {
    pub(super) fn new(limit: usize) -> Ledger {
        let (calls, live, violations) = (Calls::default(), BTreeMap::new(), Vec::new());
        Ledger { limit, is_shared: false, calls, fault: None, failures: 0, live, held: 0, violations }
    }

    pub(super) fn arm(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    pub(super) fn disarm(&mut self) {
        self.fault = None;
    }

    pub(super) fn calls(&self) -> Calls {
        self.calls
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures
    }

    pub(super) fn live(&self) -> Vec<usize> {
        self.live.values().map(|&(bytes, _)| bytes).collect()
    }

    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Counts a call. Returns how the call has to fail, if it has to.
    pub(super) fn call(&mut self, call: Call) -> Option<Failure> {
        self.calls.0[call as usize] += 1;
        let fault = self.fault.as_mut().filter(|fault| fault.only.is_none_or(|only| only == call))?;
        let fails = fault.at == 1 || (fault.at == 0 && fault.for_ever);
        fault.at = fault.at.saturating_sub(1);
        self.failures += u64::from(fails);
        fails.then_some(fault.failure)
    }

    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.held.checked_add(bytes).is_some_and(|held| held <= self.limit)
    }

    pub(super) fn allocated(&mut self, place: Place, stream: u64) {
        let Place { address, bytes } = place;
        if bytes == 0 || isize::try_from(bytes).is_err() {
            self.violation(format_args!("an allocation of {bytes} bytes"));
        }
        if !address.is_multiple_of(ALIGNMENT as u64) {
            self.violation(format_args!("{place:x?} is not aligned"));
        }
        let end = address + bytes as u64;
        let before = self.live.range(..end).next_back().map(|(&at, &(bytes, _))| (at, at + bytes as u64));
        if before.is_some_and(|(_, before_end)| before_end > address) {
            self.violation(format_args!("{place:x?} overlaps {before:x?}"));
        }
        self.live.insert(address, (bytes, stream));
        self.held += bytes;
    }

    /// Removes a block from the books. Returns false if it is not in them.
    pub(super) fn freed(&mut self, place: Place, stream: u64) -> bool {
        let entry = self.live.get(&place.address).copied();
        if entry.is_none_or(|(bytes, owner)| bytes != place.bytes || owner != stream && !self.is_shared) {
            self.violation(format_args!("a free of {place:x?} on stream {stream}, where {entry:?} lives"));
            return false;
        }
        self.live.remove(&place.address);
        self.held -= place.bytes;
        true
    }

    /// Whether memory lies within a block.
    pub(super) fn holds(&self, place: Place) -> bool {
        let block = self.live.range(..=place.address).next_back();
        block.is_some_and(|(&at, &(bytes, _))| place.address + place.bytes as u64 <= at + bytes as u64)
    }

    /// Whether memory that a call touches lies within a block of the same stream, or of any stream if they share. Notes a violation
    /// if not.
    pub(super) fn expect_live(&mut self, call: Call, place: Place, stream: u64) -> bool {
        let block = self.live.range(..=place.address).next_back();
        let is_live = block.is_some_and(|(&at, &(bytes, owner))| {
            place.address + place.bytes as u64 <= at + bytes as u64
                && place.bytes > 0
                && (owner == stream || self.is_shared)
        });
        if !is_live {
            self.violation(format_args!("{call:?} touches {place:x?} on stream {stream}, which it does not have"));
        }
        is_live
    }

    pub(super) fn violation(&mut self, what: fmt::Arguments<'_>) {
        self.violations.push(what.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: u64, bytes: usize) -> Place {
        Place { address, bytes }
    }

    #[test]
    fn a_fault_strikes_at_its_call() {
        let mut ledger = Ledger::new(usize::MAX);
        ledger.arm(Fault::once(2, Failure::Device).only(Call::Free));
        let answers = [Call::Free, Call::Fill, Call::Free, Call::Free].map(|call| ledger.call(call));
        assert_eq!(answers, [None, None, Some(Failure::Device), None]);
        ledger.arm(Fault::for_ever(2, Failure::OutOfMemory));
        let answers = [Call::Free, Call::Fill, Call::Free].map(|call| ledger.call(call));
        assert_eq!(answers, [None, Some(Failure::OutOfMemory), Some(Failure::OutOfMemory)]);
        assert_eq!((ledger.calls().total(), ledger.calls().of(Call::Fill), ledger.failures()), (7, 2, 3));
    }

    #[test]
    fn broken_rules_are_noted() {
        let breaks = |act: fn(&mut Ledger)| {
            let mut ledger = Ledger::new(usize::MAX);
            ledger.allocated(place(512, 100), 0);
            assert_eq!(ledger.violations().len(), 0);
            act(&mut ledger);
            ledger.violations().len() == 1
        };
        assert!(breaks(|ledger| ledger.allocated(place(256, 300), 0)), "overlap from below");
        assert!(breaks(|ledger| ledger.allocated(place(512, 1), 0)), "overlap at the same place");
        assert!(breaks(|ledger| ledger.allocated(place(1000, 1), 0)), "alignment");
        assert!(breaks(|ledger| ledger.allocated(place(1024, 0), 0)), "no bytes");
        assert!(breaks(|ledger| assert!(!ledger.freed(place(512, 99), 0))), "other bytes");
        assert!(breaks(|ledger| assert!(!ledger.freed(place(512, 100), 1))), "another stream");
        assert!(breaks(|ledger| assert!(ledger.freed(place(512, 100), 0) && !ledger.freed(place(512, 100), 0))));
        assert!(breaks(|ledger| assert!(!ledger.expect_live(Call::Fill, place(600, 20), 0))), "past the end");
        assert!(!breaks(|ledger| assert!(ledger.expect_live(Call::Fill, place(600, 12), 0))), "within");
    }
}
