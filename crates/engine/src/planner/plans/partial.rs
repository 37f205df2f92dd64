//! Plans of the regular part of entries, whose rest differs from entry to entry.

use super::Plans;
use gpucache_plan::entries::{Envelope, Log};

impl Plans {
    /// Whether the active plan serves only a part of each entry in order.
    pub(in crate::planner) fn is_partial(&self) -> bool {
        self.envelope().is_some_and(Envelope::is_partial)
    }

    /// Whether the active plan is partial, and the allocations of its entries come in one order.
    pub(in crate::planner) fn is_in_order(&self) -> bool {
        self.envelope().is_some_and(Envelope::is_in_order)
    }

    /// A plan that serves this entry, or a part of it.
    pub(in crate::planner) fn that_serves(&mut self, log: &Log) -> Option<usize> {
        self.that_holds(log).or_else(|| self.that_has_part(log))
    }

    /// A plan that serves a part of this entry. Its sizes are widened to those of the entry.
    fn that_has_part(&mut self, log: &Log) -> Option<usize> {
        self.stream().filter(|stream| stream.id() == log.stream())?;
        self.plans.iter_mut().position(|plan| {
            let wider = plan.seen.widen_to(log);
            plan.widened += wider.unwrap_or(0);
            wider.is_some()
        })
    }
}
