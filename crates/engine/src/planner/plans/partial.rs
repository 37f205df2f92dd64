//! Plans of the regular part of entries, whose rest differs from entry to entry.

use super::Plans;
use gpucache_plan::entries::{Envelope, Log, Scratch};

/// A plan becomes partial at the second entry with other allocations besides. An order that comes again has a plan of its own by then.
const PARTS: u32 = 2;

impl Plans {
    /// Whether the active plan serves only a part of each entry in order.
    pub(in crate::planner) fn is_partial(&self) -> bool {
        self.envelope().is_some_and(Envelope::is_partial)
    }

    /// Notes that a room of the active plan was too small. The next layout has a larger one.
    pub(in crate::planner) fn widen_room(&mut self, position: usize, bytes: u64) {
        if let Some(plan) = self.plans.get_mut(self.active) {
            plan.has_small_room |= plan.seen.widen_room(position, bytes);
        }
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

    /// Makes a plan partial, if it is a part of this entry as of some before: the rest differs from entry to entry. Returns the plan's
    /// place.
    pub(in crate::planner) fn become_partial(&mut self, log: &Log, scratch: &mut Scratch) -> Option<usize> {
        self.stream().filter(|stream| stream.id() == log.stream())?;
        let place = self.plans.iter().position(|plan| plan.seen.is_less_than(log))?;
        let plan = &mut self.plans[place];
        plan.parts += 1;
        if plan.parts >= PARTS {
            let part = plan.seen.part_of(log, scratch)?;
            plan.hold(part);
        }
        Some(place)
    }
}
