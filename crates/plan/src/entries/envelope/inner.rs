//! Positions that are arenas of scopes inside.

use super::{Envelope, FAR};

impl Envelope {
    /// Whether a position is the arena of this scope inside.
    pub fn has_inner(&self, scope: u32) -> bool {
        self.positions.iter().any(|expected| expected.inner == scope)
    }

    /// The next position, from this one on, that is the arena of this scope inside, and its most bytes, unless it is far ahead.
    pub fn next_inner(&self, position: usize, scope: u32) -> Option<(usize, u64)> {
        let mut ahead = self.positions.iter().enumerate().skip(position).take(FAR);
        ahead.find(|(_, expected)| expected.inner == scope).map(|(position, expected)| (position, expected.most))
    }
}
