//! Large blocks from idle memory: pages move to the place of the block, so the reserved memory does not grow.
//!
//! The block lies where the fewest bytes are missing (see `window`). As many bytes as would exceed the limit are unmapped first, from
//! handles in free spans outside the block's place. If the limit would be exceeded even so, nothing is unmapped. Memory that other streams
//! still use can be neither used nor unmapped, and does not count as reserved here.
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

/// How much memory may be reserved after the block was made. As much as before is always allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatherLimit {
    /// Free handles are unmapped until the reserved memory is at most this, as long as there are any.
    pub(crate) aim: u64,
    /// If more than this would be reserved, there is no block.
    pub(crate) most: u64,
    pub(crate) cut: Cut,
}

impl GatherLimit {
    /// At most `bytes` as long as there are free handles to unmap, and then as much as necessary.
    pub(crate) fn aiming_at(bytes: u64) -> GatherLimit {
        GatherLimit::between(bytes, u64::MAX)
    }

    /// Whether the only obstacle to a block may be a long handle that work still uses.
    pub(super) fn waits(&self) -> bool {
        self.cut == Cut::OrWait
    }

    /// The same limit for a caller that has waited.
    pub(super) fn at_once(self) -> GatherLimit {
        GatherLimit { cut: self.cut.now(), ..self }
    }

    /// At most `aim` as long as there are free handles to unmap, and at most `most`.
    pub(crate) fn between(aim: u64, most: u64) -> GatherLimit {
        GatherLimit { aim, most, cut: Cut::Never }
    }

    /// At most `bytes`.
    pub(crate) fn at(bytes: u64) -> GatherLimit {
        GatherLimit::between(bytes, bytes)
    }
}

impl<P: Pages> Range<P> {
    /// A block of at least `bytes` from memory whose tags `may_use` accepts, with the reserved memory within `limit` afterwards. If
    /// necessary, it unmaps free handles whose memory `is_idle` by its tag. `None` if all such handles do not suffice; nothing has changed
    /// then.
    ///
    /// # Errors
    ///
    /// [`RangeError::Pages`] with the device's error; handles that were unmapped before stay unmapped. [`RangeError::Unsettled`] if unknown
    /// work may use memory that is to be unmapped; nothing has changed then.
    pub(super) fn gather(
        &mut self,
        bytes: u64,
        limit: GatherLimit,
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
        // Searches for a window again, since holes have merged. The window found before still exists: only a part of the unmapped bytes
        // lies in it.
        self.grow(rounded, true, may_use)
    }

    /// Whether there would be a block of at least `bytes` if no work used the free memory that `counts` by its tag.
    pub(super) fn could_gather(&self, bytes: u64, counts: impl Fn(Tag) -> bool) -> bool {
        let Some(rounded) = self.rounded(bytes) else { return false };
        let mut free = self.fit.free_spans(rounded).map(|id| self.fit.spans.at(id));
        let in_exchange = || self.in_exchange(rounded, GatherLimit::aiming_at(u64::MAX), &counts, &counts);
        free.any(|span| counts(span.tag)) || in_exchange().is_some()
    }

    /// How many bytes the device must add for a block of `bytes` bytes, once all free handles have moved to it. Memory that `counts` by its
    /// tag is taken as if no work used it. 0 if such memory suffices.
    pub(super) fn needs(&self, bytes: u64, counts: impl Fn(Tag) -> bool) -> u64 {
        let lacking = self.rounded(bytes).and_then(|rounded| self.lacking(rounded, &counts));
        match lacking {
            Some((missing, window)) if !self.could_gather(bytes, &counts) => {
                missing.saturating_sub(bytes_of(self.idle_outside(window, &counts)))
            }
            _ => 0,
        }
    }

    /// The handles to unmap so that a block of `bytes` can be mapped within `limit`, in order of address.
    fn in_exchange(
        &self,
        bytes: u64,
        limit: GatherLimit,
        may_use: &impl Fn(Tag) -> bool,
        is_idle: impl Fn(Tag) -> bool,
    ) -> Option<Vec<IdleHandle>> {
        let (missing, window) = self.lacking(bytes, may_use)?;
        // Nothing is unmapped if the caller must first wait for a handle.
        self.cut_at_ends(window, limit.cut, &is_idle)?;
        self.in_exchange_for(missing, window, limit, may_use, is_idle)
    }

    /// The handles to unmap, outside of `window`, so that `missing` bytes can be mapped within `limit`. They are in order of address.
    pub(super) fn in_exchange_for(
        &self,
        missing: u64,
        window: Option<Window>,
        limit: GatherLimit,
        may_use: &impl Fn(Tag) -> bool,
        is_idle: impl Fn(Tag) -> bool,
    ) -> Option<Vec<IdleHandle>> {
        let reserved = self.stats.reserved - self.barred(may_use);
        // The device cannot provide more than it has, or than its limit allows, even if `limit` allows more.
        let all = reserved.saturating_add(self.pages.room());
        let wanted = excess(reserved, missing, limit.aim.min(all));
        if wanted == 0 {
            return Some(Vec::new());
        }
        let required = excess(reserved, missing, limit.most.min(all));
        // The bytes are summed first, so an attempt in vain, which a scope may make in each entry, uses no heap memory.
        let idle = || self.idle_outside(window, &is_idle);
        let settled = bytes_of(idle().filter(|handle| self.is_settled(handle)));
        // If the handles that no unknown work uses suffice, only those are chosen.
        let are_enough = settled >= wanted;
        let goal = if are_enough { wanted } else { wanted.min(bytes_of(idle())) };
        let among = || idle().filter(|handle| !are_enough || self.is_settled(handle)).collect();
        if goal < required { None } else { choose(among(), goal) }
    }

    pub(super) fn is_settled(&self, handle: &IdleHandle) -> bool {
        self.fit.spans.at(handle.span).tag.freed() <= self.settled
    }

    /// Unmaps handles in exchange for others. They are given in order of address.
    ///
    /// # Errors
    /// As for [`gather`](Range::gather).
    pub(super) fn move_out(&mut self, idle: &[IdleHandle]) -> Result<(), RangeError<P::Error>> {
        match idle.iter().all(|handle| self.is_settled(handle)) {
            true => self.unmap_idle(idle).map_err(RangeError::Pages),
            false => Err(RangeError::Unsettled),
        }
    }

    /// The bytes to map for a block of `bytes`, and its window. A new chunk has no window. `None` if nowhere enough addresses are free.
    pub(super) fn lacking(&self, bytes: u64, may_use: &impl Fn(Tag) -> bool) -> Option<(u64, Option<Window>)> {
        match self.backing {
            Backing::Span => {
                let window = window::best(&self.fit.spans, bytes, self.granule, may_use)?;
                Some((window.missing, Some(window)))
            }
            Backing::Chunks => Some((bytes.checked_next_multiple_of(self.granule)?, None)),
        }
    }

    /// Whether a handle of at most `most` bytes lies in free memory, whichever work may still use that memory.
    pub(super) fn has_free_handle(&self, most: u64) -> bool {
        let spans = &self.fit.spans;
        let is_free = |id: &u32| spans.state(*id) == Some(SpanState::Free);
        let mut first = self.fit.free_spans(0).filter(|&id| !is_free(&spans.at(id).prev));
        first.any(|first| {
            // Neighbouring free spans that wait for different work.
            let run = std::iter::successors(Some(first), |&id| Some(spans.at(id).next).filter(is_free));
            let end = run.last().map_or(0, |last| spans.at(last).end());
            self.handles.within(spans.at(first).offset, end).any(|(_, bytes)| bytes <= most)
        })
    }

    /// The handles outside `window` that lie in a free span whose memory `is_idle`.
    fn idle_outside(&self, window: Option<Window>, is_idle: impl Fn(Tag) -> bool) -> impl Iterator<Item = IdleHandle> {
        let spans = &self.fit.spans;
        // Shorter spans contain no handle.
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

/// How many reserved bytes must be unmapped. Afterwards, with the `missing` bytes mapped, at most `allowed` bytes are reserved, or as many
/// as before.
fn excess(reserved: u64, missing: u64, allowed: u64) -> u64 {
    let room = allowed.saturating_sub(reserved);
    missing.saturating_sub(room)
}

/// The fewest handles that have at least `need` bytes together, in order of address. `None` if all of them have less.
///
/// It takes the longest handles. The last one is the shortest that suffices, so the excess is less than that one. Among handles of equal
/// length it takes those at the highest addresses: best fit uses these last, and they leave few holes.
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
    // The next handle suffices for the rest, and shorter ones may too. The first handle of the shortest sufficient length takes its place.
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

    /// The offsets of the chosen handles, for handles of these bytes that lie one behind the other.
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
