//! Plays any entries of scopes on a device, beside a naive model of the memory in use.
//!
//! Invariants: an array is in exactly one of `slots` (allocated in the current entry), `old` (left by the entry before), `later`
//! and `kept`. `model` has the expected statistics of each scope once no entry is running.

mod checked;
pub mod deviation;
pub mod entries;
pub mod loop_programs;
pub mod loops;
mod model;
pub mod partly;
pub mod programs;

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use gpucache::{Array, Error, Result, invalidate, stats, stats::PlanStats};
use gpucache::{Recycle, Scope, ScopeGuard};

pub use checked::Checked;
use model::Scope as Expected;

/// An operation of an entry. A slot names an array; dropping an empty slot has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Allocates, into an empty slot.
    Allocate {
        /// The slot of the array.
        slot: u32,
        /// The size of the array.
        bytes: usize,
    },
    /// As `Allocate`, on the player's other stream if it has one.
    AllocateBeside {
        /// The slot of the array.
        slot: u32,
        /// The size of the array.
        bytes: usize,
    },
    /// Drops an array of this entry.
    Drop(u32),
    /// Drops an array that the entry before left.
    DropOld(u32),
    /// Keeps the array until [`Player::drop_kept`].
    Keep(u32),
    /// Drops the array on another thread, and waits for that.
    DropElsewhere(u32),
    /// Drops the array on another thread after the entry.
    DropElsewhereLater(u32),
    /// Enters a scope, by its number.
    Enter(usize, Recycle),
    /// Leaves all scopes.
    Uncached,
    /// Undoes the last `Enter` or `Uncached`.
    Leave,
    /// Invalidates a scope.
    Invalidate(usize),
    /// Invalidates a scope on another thread, and waits for that.
    InvalidateElsewhere(usize),
    /// Gives idle memory of the device back.
    Trim,
    /// Ends the entry as `return` and `?` do.
    Return,
    /// Ends the entry by a panic.
    Panic,
}

impl Op {
    /// The slot that the operation allocates into, if it allocates.
    pub fn allocated(&self) -> Option<u32> {
        match *self {
            Op::Allocate { slot, .. } | Op::AllocateBeside { slot, .. } => Some(slot),
            _ => None,
        }
    }
}

/// The unit of mapping.
const PAGE: u64 = 2 << 20;

/// An array in use.
struct Held<D: Checked> {
    array: Array<u8, D>,
    mark: u8,
    /// The scope that served it, by number.
    scope: Option<usize>,
}

/// Plays entries on one device, on one thread.
pub struct Player<D: Checked> {
    device: D,
    /// Another stream. Its device has to count its own memory, or be the first one's.
    pub beside: Option<D>,
    model: Vec<Expected>,
    /// The open entries, the outermost first.
    open: Vec<(ScopeGuard, Option<usize>)>,
    slots: HashMap<u32, Held<D>>,
    old: HashMap<u32, Held<D>>,
    later: Vec<Held<D>>,
    kept: Vec<Held<D>>,
    /// The places of arrays, if the device reports them: from address to end.
    addresses: BTreeMap<u64, u64>,
    allocations: u64,
    /// Bytes in use outside of all scopes.
    plain_bytes: u64,
    /// Whether an entry goes on after a failed allocation, without that array.
    pub skips_failures: bool,
    /// Whether other threads and handlers allocate in the scopes or reset peaks. Then only what is in use is compared with the model.
    pub is_disturbed: bool,
    /// The limit of the scopes.
    pub limit: Option<u64>,
    /// The errors after which entries went on.
    pub skipped: Vec<Error>,
    /// The fewest bytes, in whole pages, that would have been in use if a refused allocation had succeeded.
    pub least_refused: Option<u64>,
    /// The most bytes in use by arrays of scopes, and the most reserved from the device for them, since
    /// [`reset_peaks`](Player::reset_peaks).
    pub peaks: (u64, u64),
}

impl<D: Checked> Player<D> {
    /// A player in scopes with these names, which nobody else uses.
    pub fn new(device: D, names: impl IntoIterator<Item = String>) -> Player<D> {
        Player {
            device,
            beside: None,
            model: names.into_iter().map(Expected::new).collect(),
            open: Vec::new(),
            slots: HashMap::new(),
            old: HashMap::new(),
            later: Vec::new(),
            kept: Vec::new(),
            addresses: BTreeMap::new(),
            allocations: 0,
            plain_bytes: 0,
            skips_failures: false,
            is_disturbed: false,
            limit: None,
            skipped: Vec::new(),
            least_refused: None,
            peaks: (0, 0),
        }
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Plays an entry of a scope, and checks the statistics after it.
    ///
    /// # Errors
    /// The first failed allocation, after which the entry was left.
    ///
    /// # Panics
    /// If an array overlaps another, has wrong contents, or the statistics differ from the model.
    pub fn entry(&mut self, scope: usize, recycle: Recycle, ops: &[Op]) -> Result<()> {
        self.enter(scope, recycle);
        let result = ops.iter().try_for_each(|op| self.step(*op));
        let is_cut = result.is_err() || matches!(ops.last(), Some(Op::Return));
        if is_cut {
            self.drop_slots();
        }
        while !self.open.is_empty() {
            self.leave();
        }
        let later = std::mem::take(&mut self.later);
        drop_elsewhere(self.let_go(later));
        let left = std::mem::take(&mut self.slots);
        let old = std::mem::replace(&mut self.old, left);
        self.drop_all(old.into_values());
        self.verify();
        result
    }

    fn step(&mut self, op: Op) -> Result<()> {
        match op {
            Op::Allocate { slot, bytes } => return self.fill(slot, bytes, false),
            Op::AllocateBeside { slot, bytes } => return self.fill(slot, bytes, true),
            Op::Drop(slot) => {
                let held = self.slots.remove(&slot);
                self.drop_all(held);
            }
            Op::DropOld(slot) => {
                let held = self.old.remove(&slot);
                self.drop_all(held);
            }
            Op::Keep(slot) => self.kept.extend(self.slots.remove(&slot)),
            Op::DropElsewhere(slot) => {
                let held = self.slots.remove(&slot);
                drop_elsewhere(self.let_go(held));
            }
            Op::DropElsewhereLater(slot) => self.later.extend(self.slots.remove(&slot)),
            Op::Enter(scope, recycle) => self.enter(scope, recycle),
            Op::Uncached => self.open.push((ScopeGuard::outside(), None)),
            Op::Leave => self.leave(),
            Op::Invalidate(scope) => self.invalidate(scope),
            Op::InvalidateElsewhere(scope) => {
                let name = &self.model[scope].name;
                std::thread::scope(|threads| _ = threads.spawn(|| invalidate(name)));
            }
            Op::Trim => _ = self.device.trim(),
            Op::Return => {}
            Op::Panic => self.panic(),
        }
        Ok(())
    }

    fn fill(&mut self, slot: u32, bytes: usize, is_beside: bool) -> Result<()> {
        match self.allocate(bytes, is_beside) {
            Ok(held) => {
                let before = self.slots.insert(slot, held);
                self.drop_all(before);
            }
            Err(error) if self.skips_failures => self.skipped.push(error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn enter(&mut self, scope: usize, recycle: Recycle) {
        let entered = Scope::new(&self.model[scope].name).recycle(recycle);
        let entered = self.limit.map_or(entered, |limit| entered.limit(limit));
        self.open.push((entered.enter(), Some(scope)));
    }

    fn leave(&mut self) {
        drop(self.open.pop());
    }

    fn allocate(&mut self, bytes: usize, is_beside: bool) -> Result<Held<D>> {
        let scope = self.open.last().and_then(|(_, scope)| *scope);
        let mark = (self.allocations % 251) as u8;
        let device = self.beside.as_ref().filter(|_| is_beside).unwrap_or(&self.device);
        let made = device.make(bytes, mark);
        if let (Err(_), true, Some(scope)) = (&made, D::FAILS, scope) {
            self.model[scope].allocated_and_failed();
        }
        if made.as_ref().is_err_and(Error::is_out_of_memory) {
            let pages = self.pages_with(bytes);
            self.least_refused = Some(self.least_refused.map_or(pages, |least| least.min(pages)));
        }
        let array = made?;
        self.allocations += 1;
        match scope {
            Some(scope) => self.model[scope].allocated(bytes as u64),
            None => self.plain_bytes += bytes as u64,
        }
        self.peaks = (self.peaks.0.max(self.live_bytes()), self.peaks.1.max(self.held_bytes()));
        if let Some((address, end)) = D::place(&array).filter(|_| bytes > 0) {
            let before = self.addresses.range(..end).next_back();
            assert!(before.is_none_or(|(_, &before)| before <= address), "{address:x}..{end:x} is in use: {before:x?}");
            self.addresses.insert(address, end);
        }
        Ok(Held { array, mark, scope })
    }

    /// Stops counting arrays that are about to be dropped, and checks their contents.
    fn let_go(&mut self, held: impl IntoIterator<Item = Held<D>>) -> Vec<Array<u8, D>> {
        let mut arrays = Vec::new();
        for Held { array, mark, scope } in held {
            D::check(&array, mark);
            let bytes = array.len() as u64;
            match scope {
                Some(scope) => self.model[scope].dropped(bytes),
                None => self.plain_bytes -= bytes,
            }
            if let Some((address, _)) = D::place(&array).filter(|_| bytes > 0) {
                self.addresses.remove(&address);
            }
            arrays.push(array);
        }
        arrays
    }

    fn drop_all(&mut self, held: impl IntoIterator<Item = Held<D>>) {
        drop(self.let_go(held));
    }

    fn drop_slots(&mut self) {
        let slots = std::mem::take(&mut self.slots);
        self.drop_all(slots.into_values());
    }

    /// Unwinds out of all scopes. Arrays of the entry are dropped on the way.
    fn panic(&mut self) {
        let slots = std::mem::take(&mut self.slots);
        let arrays = self.let_go(slots.into_values());
        let mut open = std::mem::take(&mut self.open);
        let unwinds = catch_unwind(AssertUnwindSafe(move || {
            let _guards = std::iter::from_fn(|| open.pop()).collect::<Vec<_>>();
            let _arrays = arrays;
            resume_unwind(Box::new("as the test asks"));
        }));
        assert!(unwinds.is_err());
    }

    /// Invalidates a scope.
    pub fn invalidate(&self, scope: usize) {
        invalidate(&self.model[scope].name);
    }

    /// Drops the kept arrays.
    pub fn drop_kept(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        self.drop_all(kept);
    }

    /// Drops all arrays that earlier entries left.
    pub fn drop_old(&mut self) {
        let old = std::mem::take(&mut self.old);
        self.drop_all(old.into_values());
    }

    /// The most pages that the arrays in use can take, each array apart from the others, with one more array of this size.
    fn pages_with(&self, bytes: usize) -> u64 {
        let pages = |bytes: u64| bytes.next_multiple_of(PAGE) + PAGE;
        let in_entry = self.slots.values().chain(self.old.values());
        let live = in_entry.chain(&self.later).chain(&self.kept);
        pages(bytes as u64) + live.map(|held| pages(held.array.len() as u64)).sum::<u64>()
    }

    /// Bytes in use by arrays of scopes.
    pub fn live_bytes(&self) -> u64 {
        self.model.iter().map(Expected::bytes).sum()
    }

    /// Bytes that are reserved from the device for these arrays.
    fn held_bytes(&self) -> u64 {
        self.device.memory().bytes.saturating_sub(self.plain_bytes)
    }

    /// Resets the peaks to the current use.
    pub fn reset_peaks(&mut self) {
        self.peaks = (self.live_bytes(), self.held_bytes());
    }

    /// The number of allocations of a scope that plans served.
    pub fn planned(&self, scope: usize) -> u64 {
        stats(&self.model[scope].name).unwrap_or_default().served.planned.allocations
    }

    /// # Panics
    /// If the allocations of a scope, by what served them, are not all of its allocations.
    pub fn verify_served(&self) {
        for Expected { name, .. } in &self.model {
            let now = stats(name).unwrap_or_default();
            assert_eq!(now.served.all().allocations, now.allocations(), "{name}: {now}");
        }
    }

    /// The plan statistics of a scope.
    pub fn plan_stats(&self, scope: usize) -> PlanStats {
        stats(&self.model[scope].name).unwrap_or_default().plan
    }

    /// # Panics
    /// If the statistics of a scope differ from the model's.
    pub fn verify(&self) {
        self.model.iter().for_each(|scope| scope.verify(self.is_disturbed));
    }

    /// # Panics
    /// If a rule was broken. A device that fails reports a failure of drops once, on whatever thread they were.
    fn synchronize(&self) {
        for device in std::iter::once(&self.device).chain(&self.beside) {
            while let Err(error) = device.synchronize() {
                assert!(D::FAILS && error.is_deferred(), "a rule was broken: {error}");
            }
        }
    }

    /// Drops everything, gives everything back, and checks that the device has reserved nothing.
    ///
    /// # Panics
    /// If the device has, or if a rule was broken.
    pub fn finish(mut self) {
        self.drop_kept();
        self.drop_old();
        self.verify();
        self.synchronize();
        (0..self.model.len()).for_each(|scope| self.invalidate(scope));
        self.device.trim();
        self.beside.iter().for_each(|beside| _ = beside.trim());
        self.synchronize();
        if D::TELLS_ALL {
            let devices = std::iter::once(&self.device).chain(&self.beside);
            devices.for_each(|device| assert_eq!(device.memory().bytes, 0, "the device holds memory that nobody uses"));
        }
        self.verify();
    }
}

/// Drops arrays on a thread of its own.
fn drop_elsewhere<D: Checked>(arrays: Vec<Array<u8, D>>) {
    if !arrays.is_empty() {
        std::thread::spawn(move || drop(arrays)).join().expect("a drop does not panic");
    }
}
