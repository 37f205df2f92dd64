//! Places for sizes that were not seen yet: those that grow by a step each entry are laid out for entries to come, ever more of
//! them, so that a text of n tokens has some log n layouts.

use super::{Envelope, Expected, Scratch, VARIATION};
use crate::plan::growth::Growth;

/// How far the positions of an envelope that grow are laid out ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    /// For how many more entries they were the last time.
    entries: u64,
    /// Whether one of them was larger since.
    pub(super) is_overtaken: bool,
}

/// For how many entries growing sizes are laid out ahead at first: as many as it takes to see that they grow.
const FIRST: u64 = 4;

impl Ahead {
    /// Once positions hold more than before.
    pub(super) fn seen<'a>(mut self, mut pairs: impl Iterator<Item = (&'a Expected, &'a Expected)>) -> Ahead {
        self.is_overtaken |= pairs.any(|(before, now)| before.grows() && now.most > before.most);
        self
    }
}

impl Envelope {
    /// Learns which positions grow. They may begin small again, as another text does: with the size of one step.
    pub(crate) fn note_growth(&mut self, growth: &Growth) {
        for (position, step) in growth.steps() {
            let Some(expected) = self.positions.get_mut(position).filter(|expected| !expected.grows()) else { continue };
            expected.step = step;
            expected.least = expected.least.min(step);
            self.ahead.is_overtaken = true;
        }
    }

    /// Whether some of its positions grow.
    pub(crate) fn grows(&self) -> bool {
        self.ahead.entries > 0
    }

    /// Whether a position that grows was larger than expected, so that all that grow soon are.
    pub(crate) fn is_overtaken(&self) -> bool {
        self.ahead.is_overtaken
    }

    /// If a position that grows was larger than expected: lets all that grow be larger by twice as many steps as the last time, of
    /// which no more than `most` bytes are in use at once, but for one step.
    pub(crate) fn go_ahead(&mut self, most: u64) {
        if !std::mem::take(&mut self.ahead.is_overtaken) {
            return;
        }
        let steps = self.positions.iter().map(|expected| Expected { most: expected.step, ..*expected });
        let step = Scratch::default().bound(steps).max(1);
        let entries = (2 * self.ahead.entries).max(FIRST).min(most / step).max(1);
        self.ahead.entries = entries;
        for expected in &mut self.positions {
            expected.most = expected.most.saturating_add(expected.step.saturating_mul(entries));
        }
    }
}

impl Expected {
    /// Whether it is known to grow, and will have so many bytes in an entry to come. Without that a request that outgrew its place may
    /// be taken for a neighbour that is larger.
    pub(in crate::plan) fn grows_to(&self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.most);
        more > 0 && more.checked_rem(self.step) == Some(0) && bytes / VARIATION <= self.most
    }
}
