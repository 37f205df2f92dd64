//! How a ring gives back what its turns do not need, once.

/// Whether a ring may become shorter.
#[derive(Default)]
pub(super) struct Shortening {
    /// The entry that shortened it last.
    shortened: Option<u64>,
    /// How long it became when it grew again soon after that. The plans that it serves need so much.
    needed: u64,
}

/// A ring that grows within so many entries after it was shortened would shrink and grow in each turn. That many entries lie between two
/// looks at how much of a ring is in use.
const SOON: u64 = 1024;

impl Shortening {
    /// How many bytes a ring keeps whose turns need `target`.
    pub(super) fn keep(&self, target: u64) -> u64 {
        target.max(self.needed)
    }

    /// The ring was shortened in this entry.
    pub(super) fn note_shortened(&mut self, entry: u64) {
        self.shortened = Some(entry);
    }

    /// The ring grew in this entry, to so many bytes. If it was shortened not long before, its turns need more than was computed. It keeps
    /// what it has then, as it would otherwise shrink and grow in each turn.
    pub(super) fn note_growth(&mut self, entry: u64, bytes: u64) {
        if self.shortened.take().is_some_and(|shortened| entry.wrapping_sub(shortened) <= SOON) {
            self.needed = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_soon_grows_again_keeps_its_length() {
        let mut shortening = Shortening::default();
        shortening.note_growth(5, 100);
        assert_eq!(shortening.needed, 0, "it was not shortened");
        shortening.shortened = Some(10);
        shortening.note_growth(11 + SOON, 100);
        assert_eq!(shortening.needed, 0, "long ago");
        shortening.shortened = Some(10);
        shortening.note_growth(11, 100);
        assert_eq!(shortening.needed, 100);
    }
}
