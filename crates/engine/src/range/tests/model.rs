//! The simple model: a list of the live blocks and the device's map. Everything else is computed from these each time.

use super::super::{ALIGN, Backing, Range, RangeSpan, SpanState};
use super::device::{Device, GRANULE};

/// Addresses of the ranges under test.
pub(super) const CAPACITY: u64 = 64 * GRANULE;

#[derive(Debug)]
pub(super) struct Model {
    pub(super) backing: Backing,
    /// One block takes the first addresses, up to this one, all the time. Nothing needs to be checked there.
    pub(super) pinned: u64,
    /// (offset, bytes), in no order.
    pub(super) live: Vec<(u64, u64)>,
    pub(super) peak_live: u64,
    pub(super) peak_reserved: u64,
}

impl Model {
    pub(super) fn new(backing: Backing, pinned: u64) -> Self {
        Self { backing, pinned, live: Vec::new(), peak_live: 0, peak_reserved: 0 }
    }

    /// Adds a block. Fails if the block overlaps another one, is not aligned, or has a byte without memory.
    pub(super) fn take(&mut self, device: &Device, offset: u64, bytes: u64) {
        let apart = |&(start, length): &(u64, u64)| start + length <= offset || offset + bytes <= start;
        assert!(self.live.iter().all(apart), "{bytes} bytes at {offset} meet another block");
        assert!(offset.is_multiple_of(ALIGN) && device.backs(offset, bytes));
        if self.backing == Backing::Chunks {
            assert!(device.mapped.iter().any(|(start, length)| *start <= offset && offset + bytes <= start + length));
        }
        self.live.push((offset, bytes));
        self.peak_live = self.peak_live.max(self.live_bytes());
        self.peak_reserved = self.peak_reserved.max(device.used());
    }

    /// Removes the block that begins at `offset`, and returns it.
    pub(super) fn release(&mut self, offset: u64) -> (u64, u64) {
        let place = self.live.iter().position(|live| live.0 == offset).unwrap();
        self.live.swap_remove(place)
    }

    /// Notes a trim: the high-water mark restarts from the live bytes or the kept ones.
    pub(super) fn trimmed(&mut self, keep: u64) {
        self.peak_live = self.live_bytes().max(self.peak_live.min(keep));
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.live.iter().map(|block| block.1).sum()
    }

    fn is_live(&self, at: u64) -> bool {
        self.live.iter().any(|&(start, bytes)| start <= at && at < start + bytes)
    }

    /// Mapped and free stretches as (offset, bytes), by address, each as long as possible.
    pub(super) fn free(&self, device: &Device) -> Vec<(u64, u64)> {
        let mut free: Vec<(u64, u64)> = Vec::new();
        for (&start, &bytes) in device.mapped.range(self.pinned..) {
            for at in (start..start + bytes).step_by(ALIGN as usize).filter(|&at| !self.is_live(at)) {
                let merges =
                    |last: &&mut (u64, u64)| last.0 + last.1 == at && (self.backing == Backing::Span || at > start);
                match free.last_mut().filter(merges) {
                    Some(last) => last.1 += ALIGN,
                    None => free.push((at, ALIGN)),
                }
            }
        }
        free
    }

    /// Where best fit places `bytes` without mapping anything: in the smallest free stretch, then in the lowest one. It uses the stretch
    /// right before the last hole of a span only if nothing else fits.
    pub(super) fn best_fit(&self, device: &Device, bytes: u64) -> Option<u64> {
        let last = device.mapped.last_key_value().map_or(0, |(start, bytes)| start + bytes);
        let is_tail = |span: &(u64, u64)| self.backing == Backing::Span && span.0 + span.1 == last;
        let fitting = self.free(device).into_iter().filter(|span| span.1 >= bytes);
        fitting.min_by_key(|span| (is_tail(span), span.1, span.0)).map(|span| span.0)
    }

    /// Where a block of `bytes` could lie, if pages are ignored.
    fn places(&self, bytes: u64) -> impl Iterator<Item = u64> + '_ {
        let last = CAPACITY.checked_sub(bytes).map(|last| self.pinned + last);
        let places = last.into_iter().flat_map(|last| (self.pinned..=last).step_by(ALIGN as usize));
        places.filter(move |&at| self.live.iter().all(|&(start, length)| start + length <= at || at + bytes <= start))
    }

    /// The fewest bytes that must be mapped for a block of `bytes`, wherever it lies.
    pub(super) fn least_missing(&self, device: &Device, bytes: u64) -> Option<u64> {
        self.places(bytes).map(|at| missing(device, at, bytes)).min()
    }

    /// The handles that contain no block, as (offset, bytes).
    pub(super) fn idle_handles<'a>(&'a self, device: &'a Device) -> impl Iterator<Item = (u64, u64)> + 'a {
        let handles = device.mapped.range(self.pinned..).map(|(&start, &bytes)| (start, bytes));
        handles.filter(|&handle| self.live.iter().all(|&live| !meet(handle, live)))
    }

    /// The bytes that trimming must return: those of every handle that contains no block.
    pub(super) fn idle_bytes(&self, device: &Device) -> u64 {
        self.idle_handles(device).map(|handle| handle.1).sum()
    }

    /// For every place at which the fewest bytes are missing for a block of `bytes`: the missing bytes, and the bytes of idle handles
    /// elsewhere.
    pub(super) fn exchanges(&self, device: &Device, bytes: u64) -> Vec<(u64, u64)> {
        if self.backing == Backing::Chunks {
            let missing = bytes.checked_next_multiple_of(device.granule);
            return missing.map(|missing| (missing, self.idle_bytes(device))).into_iter().collect();
        }
        let Some(least) = self.least_missing(device, bytes) else { return Vec::new() };
        let places = self.places(bytes).filter(|&at| missing(device, at, bytes) == least);
        let elsewhere = |at| self.idle_handles(device).filter(move |&handle| !meet(handle, (at, bytes)));
        places.map(|at| (least, elsewhere(at).map(|handle| handle.1).sum())).collect()
    }

    /// Compares the range with the model: spans, merging, counters.
    pub(super) fn check(&self, range: &Range<Device>) {
        let spans = by_address(range);
        let of = |state| spans.iter().filter(move |span| span.state == state).map(|span| (span.offset, span.bytes));
        let mut live = self.live.clone();
        live.sort_unstable();
        assert_eq!(of(SpanState::Live).collect::<Vec<_>>(), live);
        assert_eq!(of(SpanState::Free).collect::<Vec<_>>(), self.free(&range.pages));
        if self.backing == Backing::Span {
            let holes_apart = |pair: &[RangeSpan]| pair[0].state != SpanState::Hole || pair[1].state != SpanState::Hole;
            assert!(spans.windows(2).all(|pair| pair[0].end() == pair[1].offset && holes_apart(pair)));
            assert_eq!(spans.iter().map(|span| span.bytes).sum::<u64>(), self.pinned + CAPACITY);
        }
        let stats = range.stats;
        assert_eq!((stats.live, stats.reserved), (self.live_bytes(), range.pages.used()));
        let is_large = |block: &&(u64, u64)| block.1 >= range.granule / 4;
        assert_eq!(stats.large_blocks, self.live.iter().filter(is_large).count() as u64);
        assert_eq!((stats.peak_live, stats.peak_reserved), (self.peak_live, self.peak_reserved));
    }
}

/// Bytes to map for a block of `bytes` at `at`.
fn missing(device: &Device, at: u64, bytes: u64) -> u64 {
    let granule = device.granule;
    let granules = (at / granule..(at + bytes).div_ceil(granule)).filter(|i| !device.backs(i * granule, 1));
    granules.count() as u64 * granule
}

/// Whether two stretches, (offset, bytes), overlap.
fn meet(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.0 + b.1 && b.0 < a.0 + a.1
}

pub(super) fn by_address(range: &Range<Device>) -> Vec<RangeSpan> {
    let mut spans: Vec<RangeSpan> = range.spans().collect();
    spans.sort_by_key(|span| span.offset);
    spans
}
