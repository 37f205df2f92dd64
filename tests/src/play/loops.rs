//! Random entries with loops: stretches of operations that repeat, whose sizes change, and whose arrays may live for several iterations.

use std::collections::{BTreeSet, VecDeque};

use fastrand::Rng;
use gpucache::Recycle;

use super::Op;
use super::entries::Style;

/// The most iterations for which an array lives.
const LAGS: usize = 5;
/// The iterations of an inner loop, at most.
const INNER: usize = 12;

/// How the sizes of an array change from one iteration to the next.
#[derive(Clone, Copy, Debug)]
enum Change {
    Equal,
    /// Each iteration needs this many bytes more.
    Step(usize),
    /// All arrays of an iteration with this change have one common factor.
    Scaled,
}

/// One action of an iteration.
#[derive(Clone, Debug)]
enum Action {
    /// Allocates the array of this number.
    Allocate {
        array: usize,
        bytes: usize,
        change: Change,
        is_beside: bool,
    },
    /// Drops the array of this number that was allocated so many iterations ago.
    Drop {
        array: usize,
        lag: usize,
    },
    /// As `Drop`, on another thread.
    DropElsewhere {
        array: usize,
        lag: usize,
    },
    /// An inner loop. Its number of iterations is that of the outer iteration, if it varies.
    Inner {
        inner: Loop,
        count: usize,
        varies: bool,
    },
    /// Allocates in another entry.
    Enter {
        scope: Option<usize>,
        bytes: usize,
    },
    Empty,
}

/// The actions of an iteration. They repeat.
#[derive(Clone, Debug)]
pub struct Loop {
    actions: Vec<Action>,
    arrays: usize,
    /// The factor by which scaled sizes vary.
    varies: f64,
    /// One of this many iterations does something more or less.
    deviates: usize,
}

/// The properties that all loops of a program share.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The sizes of arrays. Only its `bytes` count.
    pub style: Style,
    /// Whether arrays may live for several iterations.
    pub escapes: bool,
    /// One of this many actions is something rare: a nested entry, an allocation on another stream, a drop on another thread.
    pub rare: usize,
    /// One of this many iterations deviates.
    pub deviates: usize,
    /// Whether loops have loops inside.
    pub nests: bool,
    /// Whether arrays may be dropped on other threads.
    pub has_threads: bool,
}

impl Loop {
    /// A loop with so many allocations in each iteration, in an entry of this scope, beside the scope `other`.
    pub fn new(rng: &mut Rng, kind: &Kind, allocations: usize, (own, other): (usize, usize)) -> Loop {
        let mut actions = Vec::new();
        let changes = [Change::Equal, Change::Step(rng.usize(1..5000)), Change::Scaled];
        let usual = changes[rng.usize(0..3)];
        for array in 0..allocations {
            let bytes = kind.style.size(rng);
            let change = if rng.usize(0..4) == 0 { changes[rng.usize(0..3)] } else { usual };
            let is_beside = rng.usize(0..kind.rare) == 0;
            actions.push(Action::Allocate { array, bytes, change, is_beside });
            if rng.usize(0..kind.rare) == 0 {
                let scope = [Some(own), Some(other), None][rng.usize(0..3)];
                actions.push(Action::Enter { scope, bytes });
            }
            if rng.usize(0..kind.rare) == 0 {
                actions.push(Action::Empty);
            }
        }
        for array in 0..allocations {
            add_drop(rng, kind, &mut actions, array);
        }
        if kind.nests && rng.bool() {
            let calm = Kind { nests: false, ..*kind };
            let inner = Loop::new(rng, &calm, allocations.div_ceil(4).max(2), (own, other));
            let at = rng.usize(0..=actions.len());
            actions.insert(at, Action::Inner { inner, count: rng.usize(1..=INNER), varies: rng.bool() });
        }
        let varies = [1.0, 1.3, 4.0, 16.0][rng.usize(0..4)];
        Loop { actions, arrays: allocations, varies, deviates: kind.deviates }
    }

    /// About how many allocations an iteration has.
    pub fn allocations(&self) -> usize {
        let inner = |action: &Action| match action {
            Action::Inner { inner, count, .. } => count * inner.allocations(),
            _ => 0,
        };
        self.arrays + self.actions.iter().map(inner).sum::<usize>()
    }
}

/// Adds the drop of an array: in the same iteration after its allocation, or anywhere in a later iteration.
fn add_drop(rng: &mut Rng, kind: &Kind, actions: &mut Vec<Action>, array: usize) {
    let lag = if kind.escapes && rng.usize(0..6) == 0 { rng.usize(1..=LAGS) } else { 0 };
    let is_own = |action: &Action| matches!(action, Action::Allocate { array: own, .. } if *own == array);
    let from = if lag == 0 { actions.iter().position(is_own).map_or(0, |at| at + 1) } else { 0 };
    let to = if rng.bool() { actions.len() } else { actions.len().min(from + 6) };
    let is_elsewhere = kind.has_threads && rng.usize(0..4 * kind.rare) == 0;
    let drop = if is_elsewhere { Action::DropElsewhere { array, lag } } else { Action::Drop { array, lag } };
    actions.insert(rng.usize(from..=to), drop);
}

/// Writes the operations of an entry.
pub struct Writer<'a> {
    rng: &'a mut Rng,
    /// The operations so far.
    pub ops: Vec<Op>,
    next: u32,
    /// The factor of all sizes.
    pub scale: f64,
}

impl<'a> Writer<'a> {
    /// An entry without operations.
    pub fn new(rng: &'a mut Rng) -> Writer<'a> {
        Writer { rng, ops: Vec::new(), next: 0, scale: 1.0 }
    }

    fn slot(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// Allocates arrays that come in no loop. The entry keeps some of them.
    pub fn irregular(&mut self, kind: &Kind, allocations: usize) {
        for _ in 0..allocations {
            let (slot, bytes) = (self.slot(), kind.style.size(self.rng));
            self.ops.push(Op::Allocate { slot, bytes });
            if self.rng.usize(0..4) > 0 {
                self.ops.push(Op::Drop(slot));
            }
        }
    }

    /// Writes so many iterations. Arrays that would be dropped later live until the end of the entry, or are dropped behind the loop.
    pub fn iterate(&mut self, repeated: &Loop, count: usize) {
        let mut slots: VecDeque<Vec<Option<u32>>> = VecDeque::new();
        for iteration in 0..count {
            slots.push_front(vec![None; repeated.arrays]);
            slots.truncate(LAGS + 1);
            let factor = 1.0 + self.rng.f64() * (repeated.varies - 1.0);
            let skips = self.deviation(repeated);
            for (number, action) in repeated.actions.iter().enumerate() {
                if skips != Some(number) {
                    self.act(action, (iteration, factor), &mut slots);
                }
            }
        }
        if self.rng.bool() {
            self.ops.extend(slots.into_iter().flatten().flatten().map(Op::Drop));
        }
    }

    /// Allocates arrays that stay, such as weights.
    pub fn hold(&mut self, kind: &Kind, allocations: usize) {
        for _ in 0..allocations {
            let (slot, bytes) = (self.slot(), kind.style.size(self.rng));
            self.ops.push(Op::Allocate { slot, bytes });
        }
    }

    /// Drops all arrays that are alive, some on another thread if the loops do that.
    pub fn drop_all(&mut self, kind: &Kind) {
        let mut alive = BTreeSet::new();
        for op in &self.ops {
            match op {
                Op::Drop(slot) | Op::DropElsewhere(slot) => _ = alive.remove(slot),
                op => alive.extend(op.allocated()),
            }
        }
        for slot in alive {
            let is_elsewhere = kind.has_threads && self.rng.usize(0..kind.rare) == 0;
            self.ops.push(if is_elsewhere { Op::DropElsewhere(slot) } else { Op::Drop(slot) });
        }
    }

    /// Something more that an iteration does, or the number of an action that it leaves out.
    fn deviation(&mut self, repeated: &Loop) -> Option<usize> {
        if self.rng.usize(0..repeated.deviates) > 0 {
            return None;
        }
        if self.rng.bool() {
            return Some(self.rng.usize(0..repeated.actions.len()));
        }
        for _ in 0..self.rng.usize(1..40) {
            let (slot, bytes) = (self.slot(), self.rng.usize(1..100_000));
            self.ops.push(Op::Allocate { slot, bytes });
            if self.rng.usize(0..8) > 0 {
                self.ops.push(Op::Drop(slot));
            }
        }
        None
    }

    fn act(&mut self, action: &Action, (iteration, factor): (usize, f64), slots: &mut VecDeque<Vec<Option<u32>>>) {
        match *action {
            Action::Allocate { array, bytes, change, is_beside } => {
                let bytes = match change {
                    Change::Equal => bytes,
                    Change::Step(step) => bytes + step * iteration,
                    Change::Scaled => (bytes as f64 * factor) as usize,
                };
                let (slot, bytes) = (self.slot(), (bytes as f64 * self.scale) as usize);
                let op = if is_beside { Op::AllocateBeside { slot, bytes } } else { Op::Allocate { slot, bytes } };
                self.ops.push(op);
                slots[0][array] = Some(slot);
            }
            Action::Drop { array, lag } => {
                self.ops.extend(taken(slots, array, lag).map(Op::Drop));
            }
            Action::DropElsewhere { array, lag } => {
                self.ops.extend(taken(slots, array, lag).map(Op::DropElsewhere));
            }
            Action::Inner { ref inner, count, varies } => {
                let more = if varies { iteration % 7 } else { 0 };
                self.iterate(inner, count + more);
            }
            Action::Enter { scope, bytes } => self.enter(scope, bytes),
            Action::Empty => {
                let slot = self.slot();
                self.ops.extend([Op::Allocate { slot, bytes: 0 }, Op::Drop(slot)]);
            }
        }
    }

    /// Allocates two arrays in another entry, of which one outlives that entry.
    fn enter(&mut self, scope: Option<usize>, bytes: usize) {
        let (one, two) = (self.slot(), self.slot());
        self.ops.push(scope.map_or(Op::Uncached, |scope| Op::Enter(scope, Recycle::Auto)));
        self.ops.extend([one, two].map(|slot| Op::Allocate { slot, bytes }));
        self.ops.extend([Op::Drop(one), Op::Leave, Op::Drop(two)]);
    }
}

fn taken(slots: &mut VecDeque<Vec<Option<u32>>>, array: usize, lag: usize) -> Option<u32> {
    slots.get_mut(lag)?[array].take()
}
