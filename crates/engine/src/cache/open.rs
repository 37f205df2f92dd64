//! The settings of the open entries of one scope on one thread. The entries may be left in any order.

use super::policy::{Recycle, Terms};
use crate::base::opened::Opened;

#[derive(Default)]
pub(super) struct OpenTerms {
    entries: usize,
    /// The settings of the entry that began while no other entry was open.
    first: Terms,
    /// The settings of all open entries, once the scope was entered inside itself. Empty until then, since most scopes never are.
    all: Opened<(Terms, Option<usize>)>,
    /// The `recycle` of those that keep blocks. `all` has their places here.
    keeping: Opened<Recycle>,
}

/// The place of an entry that began while no other entry was open. An empty list gives this place to its first value.
const FIRST: usize = 0;

impl OpenTerms {
    /// Notes that another entry begins. Returns the place to pass to [`leave`](OpenTerms::leave).
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
        let keeps = terms.recycle != Recycle::Off;
        let place = keeps.then(|| self.keeping.push(terms.recycle));
        self.all.push((terms, place))
    }

    /// Notes that an entry ends. If others are open, returns the settings that apply now: the limit of the newest open entry, and
    /// the `recycle` of the newest open entry that keeps blocks.
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
        if let Some((_, Some(place))) = self.all.remove(place) {
            self.keeping.remove(place);
        }
        let recycle = self.keeping.newest().copied().unwrap_or(Recycle::Off);
        Some(Terms { recycle, ..self.all.newest()?.0 })
    }

    /// Forgets all open entries.
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
    use crate::base::limit::Limit;

    /// The settings that apply while these entries are open. The oldest comes first.
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
                let said = Terms::new().with_recycle(recycle).with_limit(Limit::hard(limit as u64));
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
