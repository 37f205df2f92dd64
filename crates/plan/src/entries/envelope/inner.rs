//! Positions that are arenas of scopes inside.

use super::Envelope;

/// How many positions ahead of the expected one an arena of a scope inside is looked for. An entry leaves out as many allocations at a time as are looked for
/// elsewhere.
const AHEAD: usize = 32;

impl Envelope {
    /// Whether a position is the arena of this scope inside.
    pub fn has_inner(&self, scope: u32) -> bool {
        self.positions.iter().any(|expected| expected.inner == scope)
    }

    /// Whether the first position is the arena of this scope inside.
    pub fn begins_with_inner(&self, scope: u32) -> bool {
        self.positions.first().is_some_and(|expected| expected.inner == scope)
    }

    /// The next position, from this one on, that is the arena of this scope inside, and its most bytes, unless it is far ahead.
    pub fn next_inner(&self, position: usize, scope: u32) -> Option<(usize, u64)> {
        let mut ahead = self.positions.iter().enumerate().skip(position).take(AHEAD);
        ahead.find(|(_, expected)| expected.inner == scope).map(|(position, expected)| (position, expected.most))
    }
}
