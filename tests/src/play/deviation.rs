//! Ways in which an entry can differ from the one before it.

use gpucache::Recycle;

use super::Op;

/// One difference, at one place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Deviation {
    Extra,
    Missing,
    Swapped,
    Larger,
    MuchLarger,
    Smaller,
    /// Dropped after the next entry.
    KeptOnce,
    KeptForEver,
    DroppedEarly,
    DroppedElsewhere,
    DroppedElsewhereLater,
    Returned,
    Panicked,
    /// Another scope allocates.
    Nested,
    Uncached,
    /// The same scope is entered again.
    Recursive,
    Invalidated,
    /// Invalidated, and left at once.
    InvalidatedAndReturned,
}

/// Slots that no entry uses.
const SPARE: u32 = u32::MAX - 8;

impl Deviation {
    /// All deviations.
    pub const ALL: [Deviation; 18] = [
        Deviation::Extra,
        Deviation::Missing,
        Deviation::Swapped,
        Deviation::Larger,
        Deviation::MuchLarger,
        Deviation::Smaller,
        Deviation::KeptOnce,
        Deviation::KeptForEver,
        Deviation::DroppedEarly,
        Deviation::DroppedElsewhere,
        Deviation::DroppedElsewhereLater,
        Deviation::Returned,
        Deviation::Panicked,
        Deviation::Nested,
        Deviation::Uncached,
        Deviation::Recursive,
        Deviation::Invalidated,
        Deviation::InvalidatedAndReturned,
    ];

    /// Whether it starts a thread.
    pub fn is_slow(self) -> bool {
        matches!(self, Deviation::DroppedElsewhere | Deviation::DroppedElsewhereLater)
    }

    /// The entry of scope `own` with this deviation before or at `position`, if that is possible there. The entry does not enter
    /// scope `other`.
    pub fn of(self, entry: &[Op], position: usize, own: usize, other: usize) -> Option<Vec<Op>> {
        let mut ops = entry.to_vec();
        let bytes = match entry[position..].iter().chain(entry).find(|op| matches!(op, Op::Allocate { .. })) {
            Some(&Op::Allocate { bytes, .. }) => bytes,
            _ => 256,
        };
        let insert = |ops: &mut Vec<Op>, new: &[Op]| drop(ops.splice(position..position, new.iter().copied()));
        match self {
            Deviation::Extra => {
                insert(&mut ops, &[Op::Allocate { slot: SPARE, bytes }]);
                let end = ops.len().min(position + 5);
                ops.insert(end, Op::Drop(SPARE));
            }
            Deviation::Missing => {
                let slot = entry[position].allocated()?;
                ops.retain(|op| !matches!(*op, Op::Allocate { slot: other, .. } | Op::Drop(other) if other == slot));
            }
            Deviation::Swapped => swap(&mut ops, position)?,
            Deviation::Larger => resize(&mut ops, position, |bytes| bytes + bytes / 2 + 1)?,
            Deviation::MuchLarger => resize(&mut ops, position, |bytes| 100 * bytes)?,
            Deviation::Smaller => resize(&mut ops, position, |bytes| bytes / 3)?,
            Deviation::KeptOnce => redrop(&mut ops, position, |_| None)?,
            Deviation::KeptForEver => redrop(&mut ops, position, |slot| Some(Op::Keep(slot)))?,
            Deviation::DroppedElsewhere => redrop(&mut ops, position, |slot| Some(Op::DropElsewhere(slot)))?,
            Deviation::DroppedElsewhereLater => redrop(&mut ops, position, |slot| Some(Op::DropElsewhereLater(slot)))?,
            Deviation::DroppedEarly => {
                let slot = entry[position].allocated()?;
                redrop(&mut ops, position, |_| None)?;
                ops.insert(position + 1, Op::Drop(slot));
            }
            Deviation::Returned | Deviation::Panicked => {
                ops.truncate(position);
                ops.push(if self == Deviation::Returned { Op::Return } else { Op::Panic });
            }
            Deviation::Nested => insert(&mut ops, &around(Op::Enter(other, Recycle::Auto), bytes)),
            Deviation::Uncached => insert(&mut ops, &around(Op::Uncached, bytes)),
            Deviation::Recursive => insert(&mut ops, &around(Op::Enter(own, Recycle::Auto), bytes)),
            Deviation::Invalidated => insert(&mut ops, &[Op::Invalidate(own)]),
            Deviation::InvalidatedAndReturned => {
                ops.truncate(position);
                ops.extend([Op::Invalidate(own), Op::Return]);
            }
        }
        Some(ops)
    }
}

/// Allocates and drops within another scope. One array outlives that scope.
fn around(enter: Op, bytes: usize) -> [Op; 6] {
    let [one, two] = [SPARE + 1, SPARE + 2];
    let allocate = |slot| Op::Allocate { slot, bytes };
    [enter, allocate(one), allocate(two), Op::Drop(one), Op::Leave, Op::Drop(two)]
}

/// Exchanges an operation with the next one, unless the next depends on it.
fn swap(ops: &mut [Op], position: usize) -> Option<()> {
    let slot = |op: Op| match op {
        Op::Allocate { slot, .. } | Op::Drop(slot) => Some(slot),
        _ => None,
    };
    let (one, two) = (slot(ops[position])?, slot(*ops.get(position + 1)?)?);
    (one != two).then(|| ops.swap(position, position + 1))
}

fn resize(ops: &mut [Op], position: usize, to: impl Fn(usize) -> usize) -> Option<()> {
    let Op::Allocate { bytes, .. } = &mut ops[position] else { return None };
    *bytes = to(*bytes);
    Some(())
}

/// Drops the array that was allocated at `position` in another way, or not in this entry.
fn redrop(ops: &mut Vec<Op>, position: usize, to: impl Fn(u32) -> Option<Op>) -> Option<()> {
    let slot = ops[position].allocated()?;
    let place = ops.iter().position(|op| *op == Op::Drop(slot))?;
    drop(ops.splice(place..=place, to(slot)));
    Some(())
}
