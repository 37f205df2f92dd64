//! Entries whose sizes differ from all known ones: which order they most likely have, and what they will need.
//!
//! Sizes of a training step depend on the length of its sequences: some with its square, most in proportion, the rest not at all. Between
//! the smallest and the largest known entry, each size has grown by its own power of the first one. So the first allocation of an entry
//! tells the sizes of all others, if it did so in the entry that was recorded last.

use super::{ALIGN, Envelope, Expected, are_plannable};
use crate::entries::log::{Log, Logged};

/// A first allocation that is larger by more than this factor says too little about the other ones. An arena for sizes that do not come takes
/// at most 1.42 of what is needed, until a recorded entry shows that.
const FARTHEST: f64 = 1.125;
/// Sizes that varied by less say nothing about powers: 1/32.
const LEAST_SPREAD: f64 = 1.03125;
/// Powers are rounded up to quarters, except if they exceed one by at most 1/20. A size that has a constant part besides grows by less than
/// its power. A place that is a little too large costs less than one that is too small.
const STEPS: f64 = 4.0;
const ROUNDED: f64 = 0.05;
/// A size agrees with the first one if it differs from the expected size by at most this share, 1/8, and by a quarter of how much this size
/// has varied. Else any size would agree where sizes vary little. Nearly all have to: all but 1/16.
const AGREES: f64 = 8.0;
const OF_SPREAD: f64 = 4.0;
const DISAGREE: usize = 16;
/// An entry confirms this only if its first size is far from the smallest and the largest known ones, by this share of how much it has varied.
/// Near the ends, all sizes are near their ends too, whatever they depend on.
const ENDS: f64 = 0.25;
/// No size of a network grows faster than with the third power.
const HIGHEST: f64 = 3.0;

impl Envelope {
    /// Whether most positions had several sizes.
    pub fn varies(&self) -> bool {
        2 * self.positions.iter().filter(|expected| expected.varies()).count() > self.len()
    }

    /// How many times larger or smaller the first allocation of an entry is than the nearest known one, if it may be that of this order: 1.0
    /// for a known size.
    pub fn first_is_off_by(&self, bytes: u64) -> Option<f64> {
        let first = self.at(0).filter(|first| first.is_like(bytes) && !self.is_partial())?;
        Some(ratio(first.least, bytes).max(ratio(bytes, first.most)).max(1.0))
    }

    /// Whether entries of this order began with allocations of at least so many bytes.
    pub fn first_is_at_least(&self, bytes: u64) -> bool {
        self.at(0).is_some_and(|first| first.most >= bytes)
    }

    /// Whether an entry with this first allocation most likely has this order and smaller sizes than all known ones.
    pub fn may_shrink_to(&self, bytes: u64) -> bool {
        let first = self.at(0).filter(|first| first.spread() >= LEAST_SPREAD && bytes < first.least);
        !self.is_partial() && first.is_some_and(|first| first.is_like(bytes))
    }

    /// Whether the first allocation tells that the sizes of an entry are larger than all known ones, and what they are.
    pub fn may_scale_to(&self, bytes: u64) -> bool {
        let is_near = |first: &Expected| first.most < bytes && ratio(bytes, first.most) <= FARTHEST;
        self.is_told_by_first() && !self.is_partial() && !self.grows() && self.at(0).is_some_and(is_near)
    }

    /// Notes whether the first allocation of an entry that was followed told the sizes of the others.
    pub fn note_told(&mut self, log: &Log) {
        self.is_told_by_first = self.tells_by_first(log).or(self.is_told_by_first);
    }

    /// Whether the first allocation of an entry tells the sizes of the others, as far as entries have shown.
    pub fn is_told_by_first(&self) -> bool {
        self.is_told_by_first == Some(true)
    }

    /// Takes it that the first allocation tells the sizes of the others, as it does in another order of the same work.
    pub fn trust_first(&mut self) {
        self.is_told_by_first = Some(true);
    }

    /// Whether the first allocation of this entry of the order tells the sizes of the others; `None` if it says nothing about that.
    pub(super) fn tells_by_first(&self, log: &Log) -> Option<bool> {
        let place = self.place_of(log.bytes_at(0)?)?;
        let pairs = self.positions.iter().zip(log.allocations());
        let varying = pairs.filter(|(expected, _)| expected.spread() >= LEAST_SPREAD);
        // Requests of a larger entry may have widened some positions.
        let known = varying.filter(|(expected, logged)| place >= 0.0 || logged.bytes != expected.most);
        let (mut agree, mut all) = (0, 0);
        for (expected, logged) in known {
            agree += usize::from(expected.agrees(logged, place));
            all += 1;
        }
        let do_agree = (all - agree) * DISAGREE <= all;
        let is_far = (ENDS..=1.0 - ENDS).contains(&place) || place <= -ENDS;
        (!do_agree || is_far).then_some(do_agree)
    }

    /// Where so many bytes lie among the first allocations that were recorded: from 0, the most, to 1, the least; below 0 if they are more. `None`
    /// for these two, or if they are about the same.
    fn place_of(&self, bytes: u64) -> Option<f64> {
        let first = self.at(0)?;
        // A request of the entry itself may have widened the first position.
        let most = self.first_recorded.min(first.most);
        let spread = ratio(most, first.least);
        let is_between = spread >= LEAST_SPREAD && bytes != most && bytes != first.least;
        is_between.then(|| ratio(most, bytes).ln() / spread.ln())
    }

    /// The envelope of this order that also holds an entry with a larger first allocation. `None` if that tells nothing about the others.
    pub fn scaled_to(&self, bytes: u64) -> Option<Envelope> {
        let first = self.at(0).filter(|_| self.may_scale_to(bytes))?;
        let (factor, spread) = (ratio(bytes, first.most).ln(), first.spread().ln());
        let most = |expected: &Expected| {
            let power = expected.spread().ln() / spread - ROUNDED;
            let power = ((power * STEPS).ceil() / STEPS).clamp(0.0, HIGHEST);
            (expected.most as f64 * (factor * power).exp()).ceil() as u64
        };
        let mut scaled = self.clone();
        scaled.positions.iter_mut().for_each(|expected| expected.most = most(expected).max(expected.most));
        scaled.positions.first_mut()?.most = bytes;
        are_plannable(scaled.positions.iter().map(|expected| expected.most)).then_some(scaled)
    }
}

impl Expected {
    /// Whether an allocation has about the size of this position in an entry whose first allocation lies at this place.
    fn agrees(&self, logged: &Logged, place: f64) -> bool {
        let size = self.most as f64 / (self.spread().ln() * place).exp();
        let share = ((self.spread() - 1.0) / OF_SPREAD).min(1.0 / AGREES);
        (logged.bytes as f64 - size).abs() <= size * share + ALIGN as f64
    }

    /// How many times larger the largest known size is than the smallest.
    fn spread(&self) -> f64 {
        ratio(self.most, self.least)
    }
}

fn ratio(more: u64, less: u64) -> f64 {
    more.max(1) as f64 / less.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::Log;

    /// The sizes of a step with sequences of this length.
    fn sizes(length: u64) -> [u64; 5] {
        [2048 * length, 8 * length * length, 4096, 4 + length, 64 * length + 50_000]
    }

    fn log(length: u64) -> Log {
        let mut log = Log::default();
        sizes(length).into_iter().for_each(|bytes| assert!(log.allocated(0, bytes).is_some()));
        (0..5).for_each(|number| log.dropped(number));
        log
    }

    fn envelope() -> Envelope {
        let two = Envelope::of(&log(300), &log(600)).unwrap();
        two.absorb(&log(450)).unwrap()
    }

    #[test]
    fn an_entry_that_was_followed_shows_whether_the_first_size_tells_the_others() {
        let mut widened = Envelope::of(&log(256), &log(640)).unwrap();
        assert!(widened.scaled_to(2048 * 660).is_none(), "two entries alone show no law");
        widened.note_told(&log(400));
        assert!(widened.scaled_to(2048 * 660).is_some());
        let mut flat = Log::default();
        assert!(
            [2048 * 400, 8 * 640 * 640, 4096, 4 + 640, 64 * 640 + 50_000]
                .into_iter()
                .all(|bytes| flat.allocated(0, bytes).is_some())
        );
        widened.note_told(&flat);
        assert!(widened.scaled_to(2048 * 660).is_none());
    }

    #[test]
    fn an_entry_near_the_largest_known_one_shows_nothing() {
        let mut widened = Envelope::of(&log(256), &log(640)).unwrap();
        widened.note_told(&log(620));
        assert!(widened.scaled_to(2048 * 660).is_none());
    }

    #[test]
    fn the_first_size_tells_the_others() {
        let scaled = envelope().scaled_to(2048 * 660).unwrap();
        for (position, needed) in sizes(660).into_iter().enumerate() {
            let (_, most) = scaled.sizes_at(position).unwrap();
            assert!(most >= needed && most as f64 <= 1.2 * needed as f64, "position {position}: {most} for {needed}");
        }
        assert_eq!(scaled.sizes_at(2), Some((4096, 4096)));
    }

    #[test]
    fn known_sizes_far_ones_and_steady_orders_are_not_scaled() {
        assert!(envelope().scaled_to(2048 * 600).is_none() && envelope().scaled_to(2048 * 1200).is_none());
        let steady = Envelope::of(&log(600), &log(600)).unwrap();
        let steady = steady.absorb(&log(600)).unwrap();
        assert!(steady.scaled_to(2048 * 660).is_none());
    }

    #[test]
    fn sizes_that_differ_from_what_the_first_one_tells_are_not_scaled() {
        let mut other = Log::default();
        let changed = sizes(450).into_iter().zip(sizes(580)).enumerate();
        let sizes = changed.map(|(place, (one, other))| if place == 1 { other } else { one });
        sizes.for_each(|bytes| assert!(other.allocated(0, bytes).is_some()));
        (0..5).for_each(|number| other.dropped(number));
        assert!(envelope().scaled_to(2048 * 660).is_some());
        let misled = envelope().absorb(&other).unwrap();
        assert!(misled.scaled_to(2048 * 660).is_none());
    }

    #[test]
    fn the_nearest_known_size() {
        let off_by = |length: u64| envelope().first_is_off_by(2048 * length);
        assert_eq!((off_by(300), off_by(450), off_by(1200)), (Some(1.0), Some(1.0), Some(2.0)));
        assert_eq!((off_by(100), off_by(4)), (Some(3.0), None));
        assert!(envelope().first_is_at_least(2048 * 600) && !envelope().first_is_at_least(2048 * 600 + 1));
        let may_shrink = |length: u64| envelope().may_shrink_to(2048 * length);
        assert!(may_shrink(100) && !may_shrink(300) && !may_shrink(4));
    }
}
