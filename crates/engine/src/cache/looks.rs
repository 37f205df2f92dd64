//! When the end of an entry takes a look at something. An entry without a look counts one number down.

use crate::home::FIRST_SPACING;

/// In entries.
pub(super) struct Looks {
    /// Until the next look, and as many as that were at the last one.
    next_in: u32,
    since: u32,
    /// As of the last look: until the next one at which spare records are needed, and at how much is alive.
    spares_in: u32,
    alive_in: u32,
}

/// Far more than orders that take turns, so that a spare record that one of them needs is not dropped.
const SPARES_IN: u32 = 256;

impl Default for Looks {
    fn default() -> Looks {
        let (next_in, since) = (FIRST_SPACING, FIRST_SPACING);
        Looks { next_in, since, spares_in: SPARES_IN, alive_in: FIRST_SPACING }
    }
}

impl Looks {
    /// An entry ends. Whether there is something to look at; then [`go_on`](Looks::go_on) is to follow.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.next_in -= 1;
        self.next_in == 0
    }

    pub(super) fn are_spares_due(&self) -> bool {
        self.spares_in <= self.since
    }

    pub(super) fn is_alive_due(&self) -> bool {
        self.alive_in <= self.since
    }

    /// After so many entries it is looked at again how much is alive.
    pub(super) fn look_at_alive_in(&mut self, entries: u32) {
        self.alive_in = self.since.saturating_add(entries);
    }

    /// What is due was looked at.
    pub(super) fn go_on(&mut self) {
        let spares_in = if self.are_spares_due() { SPARES_IN } else { self.spares_in - self.since };
        let alive_in = self.alive_in.saturating_sub(self.since).max(1);
        let next_in = spares_in.min(alive_in);
        *self = Looks { next_in, since: next_in, spares_in, alive_in };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_matter_is_looked_at_in_its_own_time() {
        let (mut looks, mut spares, mut alive) = (Looks::default(), Vec::new(), Vec::new());
        for entry in 1..=1100 {
            if looks.is_due() {
                if looks.are_spares_due() {
                    spares.push(entry);
                }
                if looks.is_alive_due() {
                    alive.push(entry);
                    looks.look_at_alive_in(if entry < 100 { 16 } else { 500 });
                }
                looks.go_on();
            }
        }
        assert_eq!(spares, [256, 512, 768, 1024]);
        assert_eq!(alive, [8, 24, 40, 56, 72, 88, 104, 604]);
    }
}
