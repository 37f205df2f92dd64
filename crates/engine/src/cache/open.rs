//! What the open entries of a scope on a thread say. Any of them may be left first.

use super::policy::{Recycle, Terms};
use crate::base::opened::Opened;

#[derive(Default)]
pub(super) struct OpenTerms {
    entries: usize,
    /// What the entry says that began while no other one was open.
    first: Terms,
    /// All that are open, once the scope was entered inside itself; nothing until then, as most scopes never are.
    all: Opened<Said>,
    /// What those of them say that keep anything.
    keeping: Opened<Recycle>,
}

/// What an entry says, and its place among those that keep anything.
struct Said {
    terms: Terms,
    keeping: Option<usize>,
}

/// The place of an entry that began while no other one was open: an empty list gives its first value this one.
const FIRST: usize = 0;

impl OpenTerms {
    /// Another entry begins. Returns what [`leave`](OpenTerms::leave) knows it by.
    #[inline]
    pub(super) fn enter(&mut self, terms: Terms) -> usize {
        self.entries += 1;
        if self.entries == 1 {
            self.first = terms;
            return FIRST;
        }
        self.enter_again(terms)
    }

    #[inline(never)]
    fn enter_again(&mut self, terms: Terms) -> usize {
        if self.all.is_empty() {
            self.add(self.first);
        }
        self.add(terms)
    }

    fn add(&mut self, terms: Terms) -> usize {
        let keeping = (terms.recycle != Recycle::Off).then(|| self.keeping.push(terms.recycle));
        self.all.push(Said { terms, keeping })
    }

    /// An entry ends. If others are open, returns what holds of them: the limit that the newest one says, and what the newest of
    /// those says that keep anything.
    #[inline]
    pub(super) fn leave(&mut self, place: usize) -> Option<Terms> {
        self.entries = self.entries.saturating_sub(1);
        if self.entries > 0 {
            return self.leave_inner(place);
        }
        if !self.all.is_empty() {
            self.forget();
        }
        None
    }

    #[inline(never)]
    fn leave_inner(&mut self, place: usize) -> Option<Terms> {
        if let Some(Said { keeping: Some(keeping), .. }) = self.all.remove(place) {
            self.keeping.remove(keeping);
        }
        let newest = self.all.newest()?.terms;
        Some(Terms { recycle: self.keeping.newest().copied().unwrap_or(Recycle::Off), ..newest })
    }

    /// None is open any more.
    pub(super) fn forget(&mut self) {
        self.entries = 0;
        self.all.clear();
        self.keeping.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What holds of these entries, the oldest first.
    fn expected(open: &[(usize, Terms)]) -> Option<Terms> {
        let newest = open.last()?.1;
        let keeping = open.iter().rev().map(|(_, terms)| terms.recycle).find(|&recycle| recycle != Recycle::Off);
        Some(Terms { recycle: keeping.unwrap_or(Recycle::Off), ..newest })
    }

    proptest! {
        #[test]
        fn entries_may_be_left_in_any_order(steps in prop::collection::vec((any::<bool>(), 0..4usize, 0..30usize), 1..300)) {
            let (mut terms, mut open) = (OpenTerms::default(), Vec::new());
            for (limit, (comes, recycle, which)) in steps.into_iter().enumerate() {
                let recycle = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off][recycle];
                let said = Terms { recycle, limit: limit as u64 };
                if comes || open.is_empty() {
                    open.push((terms.enter(said), said));
                } else {
                    let (place, _) = open.remove(which % open.len());
                    prop_assert_eq!(terms.leave(place), expected(&open));
                }
            }
        }
    }
}
