//! The events of a scope's plans for subscribers of `tracing`: a new layout, an entry that deviated, a new arena, a ring that grew.
//!
//! A subscriber is user code. It is called only where nothing is borrowed and no memory is on its way to the range.

use super::owner::Owner;
use crate::base::subscriber::{self, TARGET};
use crate::home::{Counter, Deviations, Sample};
use crate::planner::News;

impl Owner {
    /// Tells subscribers how plans changed in an entry.
    #[cold]
    pub(super) fn tell(&self, news: &News) {
        let scope = &*self.scope_name().unwrap_or_default();
        subscriber::tell(|| match *news {
            News::LaidOut { positions, bytes, bound_bytes, allocations } => {
                let share = allocations.map(|allocations| positions as f64 / allocations.max(1) as f64);
                tracing::debug!(target: TARGET, scope, positions, bytes, bound_bytes, share, "plan laid out");
            }
            News::Deviated { seen, ref first } => tell_deviation(scope, seen, first.as_ref()),
        });
    }

    /// Tells subscribers the sizes of the plans' arena now and before, if the plans have one now.
    #[cold]
    pub(super) fn tell_arena(&self, device: u64) {
        let bytes = self.shared.counters.get(Counter::Arena);
        if bytes == 0 {
            return;
        }
        let before_bytes = self.with(|local, _| std::mem::replace(&mut local.last_arena, bytes));
        let scope = &*self.scope_name().unwrap_or_default();
        subscriber::tell(|| tracing::debug!(target: TARGET, scope, device, bytes, before_bytes, "arena reserved"));
    }

    /// Tells subscribers the size of a ring that has grown.
    #[cold]
    pub(super) fn tell_ring(&self, device: u64) {
        let (scope, bytes) = (&*self.scope_name().unwrap_or_default(), self.shared.counters.get(Counter::RingBytes));
        subscriber::tell(|| tracing::debug!(target: TARGET, scope, device, bytes, "ring grew"));
    }
}

fn tell_deviation(scope: &str, seen: Deviations, first: Option<&Sample>) {
    let Deviations { extra, missing, reordered, larger, blocked } = seen;
    let expected = first.and_then(|first| first.expected);
    tracing::debug!(
        target: TARGET,
        scope,
        extra,
        missing,
        reordered,
        larger,
        blocked,
        number = first.map(|first| first.number),
        dtype = first.map(|first| first.type_name),
        shape = first.map(|first| debug(first.dims().0)),
        bytes = first.map(|first| first.bytes),
        least_expected_bytes = expected.map(|(least, _)| least),
        most_expected_bytes = expected.map(|(_, most)| most),
        site = first.and_then(|first| first.site).map(display),
        "deviation from the plan"
    );
}
