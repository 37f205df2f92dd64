//! Large blocks from what is idle: pages move to where a block fits, so that what is reserved does not grow.
//!
//! The block goes where the fewest bytes are missing (see `window`). As many bytes are unmapped first as would be too
//! many then: handles in free spans that the block's place does not meet. Nothing is unmapped if too much would be
//! reserved even so. What other streams still use can be neither used nor unmapped, and does not count as reserved.
//!
//! ```text
//!   0                    reserved      aim           most    reserved + missing
//!   ├───────────────────────┼───────────┼──────────────┼──────────────┤
//!                                       │              ├── required ──┤  if less is idle, there is no block
//!                                       ├─────────── wanted ──────────┤  unmapped first, or all that is idle
//! ```

use std::cmp::Reverse;
use std::convert::Infallible;

use super::cut::Cut;
use super::fit::{ANY_LENGTH, EVERY_SPAN, RangeBlock};
use super::handles::IdleHandle;
use super::range::{Backing, Range, RangeError};
use super::spans::SpanState;
use super::window::{self, Window};
use crate::device::Pages;
use crate::order::Tag;

/// How much may be reserved once there is a block; as much as before always may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// Free handles are unmapped for more than this, as long as there are any.
    pub(crate) aim: u64,
    /// There is no block rather than more than this.
    pub(crate) most: u64,
    pub(crate) cut: Cut,
}

impl Limit {
    /// No more than `bytes` as long as there are free handles to unmap, and however much it takes then.
    pub(crate) fn aiming_at(bytes: u64) -> Limit {
        Limit { aim: bytes, most: u64::MAX, cut: Cut::Never }
    }

    /// Whether there may be no block only because a long handle is in use.
    pub(super) fn waits(&self) -> bool {
        self.cut == Cut::OrWait
    }

    /// The same for a caller who has waited.
    pub(super) fn at_once(self) -> Limit {
        Limit { cut: self.cut.now(), ..self }
    }

    /// No more than `bytes`.
    pub(crate) fn at(bytes: u64) -> Limit {
        Limit { aim: bytes, most: bytes, cut: Cut::Never }
    }
}

impl<P: Pages> Range<P> {
    /// A block of at least `bytes` from memory that `may_use` says of by its tag, after which what is reserved is within
    /// `limit`. Free handles are unmapped if it takes that, of memory that `is_idle` by its tag. `None` if all such handles
    /// are not enough; nothing has changed then.
    ///
    /// # Errors
    ///
    /// [`RangeError::Pages`] with the device's error, and what was unmapped until then stays so. [`RangeError::Unsettled`] if
    /// unknown work may use what is to be unmapped; nothing has changed then.
    pub(super) fn gather(
        &mut self,
        bytes: u64,
        limit: Limit,
        may_use: impl Fn(Tag) -> bool,
        is_idle: impl Fn(Tag) -> bool,
    ) -> Result<Option<RangeBlock>, RangeError<P::Error>> {
        let Some(rounded) = self.rounded(bytes) else { return Ok(None) };
        let Ok(found) = self.fit.allocate_if(rounded, ANY_LENGTH, EVERY_SPAN, |tag| Ok::<_, Infallible>(may_use(tag)));
        let idle = match found {
            Some(block) => match self.cut_carved(&block, limit.cut, &is_idle) {
                Some(handles) if handles.is_empty() => {
                    self.count(rounded);
                    return Ok(Some(block));
                }
                handles => {
                    let span = self.fit.coalesce(block.node);
                    handles.map(|handles| handles.into_iter().map(|handle| IdleHandle { span, ..handle }).collect())
                }
            },
            None => self.in_exchange(rounded, limit, &may_use, &is_idle),
        };
        let Some(idle) = idle else { return Ok(None) };
        self.move_out(&idle)?;
        self.cut_windows(rounded, limit.cut, &may_use, &is_idle).map_err(RangeError::Pages)?;
        // Looks for a window anew, since holes have merged. The one found before is still there: of what was unmapped it misses less
        // than that.
        let block = self.grow_exactly(rounded, may_use)?;
        if block.is_some() {
            self.count(rounded);
        }
        Ok(block)
    }

    /// What to unmap so that a block of `bytes` can be mapped within `limit`, in order of address.
    fn in_exchange(
        &self,
        bytes: u64,
        limit: Limit,
        may_use: &impl Fn(Tag) -> bool,
        is_idle: impl Fn(Tag) -> bool,
    ) -> Option<Vec<IdleHandle>> {
        let (missing, window) = self.lacking(bytes, may_use)?;
        // Nothing is unmapped if a handle is to be waited for.
        self.cut_at_ends(window, limit.cut, &is_idle)?;
        self.in_exchange_for(missing, window, limit, may_use, is_idle)
    }

    /// What to unmap so that so many `missing` bytes can be mapped within `limit`, outside of `window`, in order of address.
    pub(super) fn in_exchange_for(
        &self,
        missing: u64,
        window: Option<Window>,
        limit: Limit,
        may_use: &impl Fn(Tag) -> bool,
        is_idle: impl Fn(Tag) -> bool,
    ) -> Option<Vec<IdleHandle>> {
        let reserved = self.stats.reserved - self.barred(may_use);
        // More than the device has, or may give by its limit, is not to be had however much may be reserved.
        let all = reserved.saturating_add(self.pages.room());
        let wanted = excess(reserved, missing, limit.aim.min(all));
        if wanted == 0 {
            return Some(Vec::new());
        }
        let required = excess(reserved, missing, limit.most.min(all));
        // Added up first: an attempt in vain, which a scope may make in each entry, takes no memory of the heap.
        let idle = || self.idle_outside(window, &is_idle);
        let settled = bytes_of(idle().filter(|handle| self.is_settled(handle)));
        // Handles that no unknown work uses, if they are enough.
        let are_enough = settled >= wanted;
        let goal = if are_enough { wanted } else { wanted.min(bytes_of(idle())) };
        let among = || idle().filter(|handle| !are_enough || self.is_settled(handle)).collect();
        if goal < required { None } else { choose(among(), goal) }
    }

    pub(super) fn is_settled(&self, handle: &IdleHandle) -> bool {
        self.fit.spans.at(handle.span).tag.freed() <= self.settled
    }

    /// Unmaps handles for others, given in order of address.
    ///
    /// # Errors
    /// As for [`gather`](Range::gather).
    pub(super) fn move_out(&mut self, idle: &[IdleHandle]) -> Result<(), RangeError<P::Error>> {
        match idle.iter().all(|handle| self.is_settled(handle)) {
            true => self.unmap_idle(idle).map_err(RangeError::Pages),
            false => Err(RangeError::Unsettled),
        }
    }

    /// How many bytes have to be mapped for a block of `bytes`, and its window, which a chunk of its own does not have.
    /// `None` if nowhere so many addresses are free.
    pub(super) fn lacking(&self, bytes: u64, may_use: &impl Fn(Tag) -> bool) -> Option<(u64, Option<Window>)> {
        match self.backing {
            Backing::Span => {
                let window = window::best(&self.fit.spans, bytes, self.granule, may_use)?;
                Some((window.missing, Some(window)))
            }
            Backing::Chunks => Some((bytes.checked_next_multiple_of(self.granule)?, None)),
        }
    }

    /// Whether a handle of at most so many bytes lies in free memory, whoever may still use that.
    pub(super) fn has_free_handle(&self, most: u64) -> bool {
        let spans = &self.fit.spans;
        let is_free = |id: &u32| spans.state(*id) == Some(SpanState::Free);
        let mut first = self.fit.free_spans(0).filter(|&id| !is_free(&spans.at(id).prev));
        first.any(|first| {
            // Free spans side by side of which each waits for other work.
            let run = std::iter::successors(Some(first), |&id| Some(spans.at(id).next).filter(is_free));
            let end = run.last().map_or(0, |last| spans.at(last).end());
            self.handles.within(spans.at(first).offset, end).any(|(_, bytes)| bytes <= most)
        })
    }

    /// The handles that lie in a free span whose memory `is_idle`, and have no address of `window`.
    fn idle_outside(&self, window: Option<Window>, is_idle: impl Fn(Tag) -> bool) -> impl Iterator<Item = IdleHandle> {
        let spans = &self.fit.spans;
        // Shorter ones hold no handle.
        let free = self.fit.free_spans(self.granule).filter(move |&id| is_idle(spans.at(id).tag));
        let handles = move |span| {
            let within = self.handles.within(spans.at(span).offset, spans.at(span).end());
            within.map(move |(offset, bytes)| IdleHandle { span, offset, bytes })
        };
        let is_outside = move |idle: &IdleHandle| window.is_none_or(|window| !window.meets(idle.offset, idle.bytes));
        free.flat_map(handles).filter(is_outside)
    }
}

fn bytes_of(handles: impl Iterator<Item = IdleHandle>) -> u64 {
    handles.map(|handle| handle.bytes).sum()
}

/// How many of the bytes `reserved` have to go so that with those that are `missing` there are no more than `allowed`, or
/// than before.
fn excess(reserved: u64, missing: u64, allowed: u64) -> u64 {
    let room = allowed.saturating_sub(reserved);
    missing.saturating_sub(room)
}

/// The fewest of the handles that make at least `need` bytes, in order of address; `None` if all make less.
///
/// The longest ones, but for the last, which is the shortest that suffices: the excess is less than that one. Among
/// equals those at the highest addresses, which best fit uses last, and which leave few holes.
fn choose(mut idle: Vec<IdleHandle>, need: u64) -> Option<Vec<IdleHandle>> {
    if need == 0 {
        return Some(Vec::new());
    }
    idle.sort_unstable_by_key(|handle| Reverse((handle.bytes, handle.offset)));
    let (mut whole, mut rest) = (0, need);
    while idle.get(whole)?.bytes < rest {
        rest -= idle[whole].bytes;
        whole += 1;
    }
    // The next one would do for the rest, and so would shorter ones: the first of the shortest takes its place.
    let enough = idle.partition_point(|handle| handle.bytes >= rest);
    let shortest = idle[..enough].last()?.bytes;
    let last = idle.partition_point(|handle| handle.bytes > shortest);
    idle.swap(whole, last);
    idle.truncate(whole + 1);
    idle.sort_unstable_by_key(|handle| handle.offset);
    Some(idle)
}

#[cfg(test)]
mod tests {
    use super::{IdleHandle, choose};

    /// What is chosen of handles of these bytes, one behind the other.
    fn chosen(bytes: &[u64], need: u64) -> Option<Vec<u64>> {
        let offset = |i: usize| bytes[..i].iter().sum();
        let idle = bytes.iter().enumerate().map(|(i, &bytes)| IdleHandle { span: 0, offset: offset(i), bytes });
        choose(idle.collect(), need).map(|idle| idle.iter().map(|handle| handle.offset).collect())
    }

    #[test]
    fn few_long_ones_and_a_last_one_that_just_suffices() {
        assert_eq!(chosen(&[1, 8, 2, 4, 1], 9), Some(vec![1, 15]));
        assert_eq!(chosen(&[1, 8, 2, 4, 1], 11), Some(vec![1, 11]));
        assert_eq!(chosen(&[1, 8, 2, 4, 1], 16), Some(vec![0, 1, 9, 11, 15]));
        assert_eq!(chosen(&[1, 8, 2, 4, 1], 2), Some(vec![9]));
    }

    #[test]
    fn among_equals_the_highest() {
        assert_eq!(chosen(&[2, 2, 2, 2, 2], 5), Some(vec![4, 6, 8]));
    }

    #[test]
    fn all_or_none() {
        assert_eq!(chosen(&[3, 3], 6), Some(vec![0, 3]));
        assert_eq!(chosen(&[3, 3], 7), None);
        assert_eq!(chosen(&[], 1), None);
        assert_eq!((chosen(&[], 0), chosen(&[3], 0)), (Some(vec![]), Some(vec![])));
        assert_eq!(chosen(&[u64::MAX / 2, 1], u64::MAX), None);
    }
}
