//! Which cause is behind what was counted of a scope on a thread: pure rules over plain data.
//!
//! One cause shows in many facts: what is invalidated all the time is never planned, and what changes its sizes deviates. So the
//! rules stand in an order. What the program chose or what stands in its way comes first, since it explains the rest; what entries
//! do comes then, the cause of which most entries tell; and last how entries differ that were never planned.

use super::cause::Cause;
use super::diagnosis::{Finding, told};
use crate::stats::{ScopeStats, Unplanned};
use gpucache_engine::base::amounts::Bytes;
use gpucache_engine::cache::ScopeFacts;
use gpucache_engine::home::{Counter, Fact, FactCount, Facts};

/// Fewer entries say nothing: two are learned from, and plans settle in some more.
const EARLY: u64 = 8;
/// What is seen in a smaller share of entries is not told.
const SELDOM: u64 = 8;
/// Deviations in a smaller share of entries are not told: work that comes now and then, as a validation.
const DEVIATING: u64 = 3;
/// Nor is what concerns a smaller share of allocations.
const FEW: u64 = 128;
/// What was not seen in so many entries is over.
const OVER: u64 = Facts::WINDOW / 2;
/// So many entries that allocate nothing, or are inside of others, are no accident.
const MANY: u64 = 16;
/// So many rounds in an entry are a loop.
const ROUNDS: u64 = 16;
/// So many arrays that outlived their entries, of which hardly any was dropped, pile up.
const PILED: u64 = 32;
/// So many arrays more, in most entries that there ever were, are a leak.
const LEAKED: u64 = 3;
/// By key a scope keeps a place for each shape, whenever that is in use: so much more than is ever in use at once is no waste yet.
const WASTE: u64 = 2;
/// Less idle memory than this is no waste: a page of a host.
const LITTLE: u64 = 64 << 10;

/// What is known of a scope on a thread, and the entries that are looked at.
pub(super) struct Patient<'a> {
    known: &'a ScopeFacts,
    stats: ScopeStats,
    /// Entries that the facts of lately are of.
    span: u64,
    /// Allocations of an entry, on average.
    mean: u64,
}

impl<'a> Patient<'a> {
    pub(super) fn new(known: &'a ScopeFacts) -> Patient<'a> {
        let (clock, stats) = (known.clock, ScopeStats::of(&known.counts));
        let span = clock - (clock / Facts::WINDOW).saturating_sub(1) * Facts::WINDOW;
        let mean = stats.allocations() / clock.max(1);
        Patient { known, stats, span: span.max(1), mean }
    }

    /// How often the scope was entered.
    pub(super) fn entries(&self) -> u64 {
        self.stats.entries
    }

    /// Whether it plans, and too few entries were seen to say how.
    pub(super) fn is_early(&self) -> bool {
        (1..EARLY).contains(&self.known.clock)
    }

    /// What is wrong, if anything is.
    pub(super) fn finding(&self) -> Option<Finding> {
        let of_memory = self.chosen().or_else(|| self.in_the_way()).or_else(|| self.leak());
        of_memory.or_else(|| self.misplaced()).or_else(|| self.of_entries())
    }

    /// What the program chose.
    fn chosen(&self) -> Option<Finding> {
        let (stats, keeps_all) = (&self.stats, self.known.keeps_all);
        if self.is_frequent(Fact::Unkept, SELDOM) {
            return Some(self.found(Cause::NotRecycled, Fact::Unkept));
        }
        let held = stats.busy_bytes.saturating_add(stats.idle_bytes);
        let waste = held.saturating_sub(stats.high_water_bytes);
        if keeps_all && waste > stats.high_water_bytes.saturating_mul(WASTE).max(LITTLE) {
            return Some(self.whole(Cause::KeyedWaste, waste));
        }
        None
    }

    /// What takes its memory, or leaves none.
    fn in_the_way(&self) -> Option<Finding> {
        self.limit().or_else(|| {
            let causes = [(Fact::Short, Cause::Short), (Fact::Invalidated, Cause::Invalidated)];
            let is_so = |&(fact, _): &(Fact, Cause)| self.is_frequent(fact, SELDOM) && self.lately(fact).entries > 2;
            let found = causes.into_iter().find(is_so).map(|(fact, cause)| self.found(cause, fact));
            found.or_else(|| self.goes_back().then(|| self.found(Cause::GivenBack, Fact::GivenBack)))
        })
    }

    fn limit(&self) -> Option<Finding> {
        if self.is_frequent(Fact::Squeezed, SELDOM) {
            return Some(self.limited(self.found(Cause::Limit, Fact::Squeezed)));
        }
        if self.is_frequent(Fact::ShortByLimit, SELDOM) {
            return Some(self.found(Cause::Limit, Fact::ShortByLimit));
        }
        let is_refused = self.lacks_arena() && self.last(Fact::BeyondLimit) > self.last(Fact::NoStretch);
        is_refused.then(|| self.limited(self.refused(Cause::Limit, Fact::BeyondLimit)))
    }

    /// Whether its memory goes back between entries, and is taken from the device again.
    fn goes_back(&self) -> bool {
        let is_often = |fact| self.is_frequent(fact, SELDOM / 2);
        self.known.clock >= EARLY && is_often(Fact::GivenBack) && is_often(Fact::Taken)
    }

    /// More and more arrays are alive, whatever entries do otherwise. It explains why their order changes.
    fn leak(&self) -> Option<Finding> {
        let (stats, facts) = (&self.stats, &self.known.facts);
        let (arrays, bytes, entries) = facts.alive.growth(LEAKED)?;
        let mean = stats.allocations() / stats.entries.max(1);
        let share = (arrays as f64 / (mean * entries).max(1) as f64).min(1.0);
        let grown = format!("{arrays} more arrays are alive than {entries} entries before, and {} more", Bytes(bytes));
        let details = std::iter::once(grown).chain(facts.kept.iter().map(told)).collect();
        let sites = facts.kept.iter().filter_map(|sample| sample.site).collect();
        let seen = arrays.min(entries);
        Some(Finding {
            cause: Cause::Escapes,
            entries: seen,
            of_entries: entries,
            allocations: arrays,
            share,
            bytes,
            sites,
            details,
        })
    }

    /// A scope that stands elsewhere than what repeats.
    fn misplaced(&self) -> Option<Finding> {
        let (stats, ScopeFacts { clock, repeats, .. }) = (&self.stats, self.known);
        let is_entered = stats.entries >= MANY;
        let causes = [
            (Cause::Empty, is_entered && stats.allocations() < stats.entries.div_ceil(SELDOM)),
            (Cause::Nested, is_entered && (1..EARLY).contains(clock)),
            (Cause::LoopInside, (1..=2).contains(clock) && *repeats >= ROUNDS),
        ];
        let bytes = stats.high_water_bytes;
        let found = causes.into_iter().find(|&(_, is_so)| is_so).map(|(cause, _)| self.whole(cause, bytes));
        found.or_else(|| {
            let too = [(Fact::TooLong, Cause::TooLong), (Fact::TooLarge, Cause::TooLarge)];
            let too = too.into_iter().find(|&(fact, _)| self.is_frequent(fact, 2));
            too.map(|(fact, cause)| self.found(cause, fact))
        })
    }

    /// What entries do.
    fn of_entries(&self) -> Option<Finding> {
        if self.known.clock < EARLY {
            return None;
        }
        self.streams().or_else(|| self.deviations()).or_else(|| self.differences()).or_else(|| self.no_stretch())
    }

    fn streams(&self) -> Option<Finding> {
        let recorded = self.last(Fact::Recorded);
        let [own, other] = [Fact::Recorded, Fact::OtherStream].map(|fact| self.known.facts.lately(fact, recorded));
        let is_other = recorded > 0 && self.last(Fact::OtherStream) == recorded;
        if is_other && other.events.saturating_mul(SELDOM) >= own.events.saturating_add(other.events) {
            let share = other.events as f64 / own.events.saturating_add(other.events) as f64;
            return Some(Finding {
                share,
                ..self.finding_of(Cause::OtherStreams, Fact::OtherStream, other, own.entries)
            });
        }
        if self.is_frequent(Fact::Unserved, SELDOM) {
            return Some(self.found(Cause::OtherStreams, Fact::Unserved));
        }
        self.used_elsewhere()
    }

    /// Memory that waits for other streams.
    fn used_elsewhere(&self) -> Option<Finding> {
        let used = self.lately(Fact::UsedElsewhere);
        let waits = used.bytes / used.entries.max(1);
        let is_much = used.events / 2 >= used.entries && waits.saturating_mul(SELDOM) >= self.stats.high_water_bytes;
        let is_used = is_much && self.is_frequent(Fact::UsedElsewhere, SELDOM);
        is_used.then(|| Finding { bytes: waits, ..self.found(Cause::UsedElsewhere, Fact::UsedElsewhere) })
    }

    /// How entries differ from their plan: the cause that most of them tell of.
    fn deviations(&self) -> Option<Finding> {
        if self.piles_up() {
            return Some(Finding {
                allocations: self.carried_now(),
                ..self.whole(Cause::Escapes, self.stats.busy_bytes)
            });
        }
        let causes = [
            (Fact::Aside, Cause::Escapes),
            (Fact::Blocked, Cause::Escapes),
            (Fact::OtherOrder, Cause::ChangingOrder),
            (Fact::OtherSize, Cause::ChangingShapes),
        ];
        let told = causes.into_iter().filter(|&(fact, _)| self.is_frequent(fact, DEVIATING) && self.is_much(fact));
        let most = told.max_by_key(|&(fact, _)| self.lately(fact).entries);
        most.map(|(fact, cause)| self.found(cause, fact))
    }

    /// Whether what outlives its entry is hardly ever dropped, or more and more of it is alive.
    fn piles_up(&self) -> bool {
        let (carried, now) = (self.stats.plan.carried, self.carried_now());
        let is_kept = carried >= PILED && now.saturating_mul(SELDOM) >= carried.saturating_mul(SELDOM - 1);
        let is_grown = self.last(Fact::RingGrew).saturating_mul(4) >= self.known.clock.saturating_mul(3);
        let grows = now.saturating_mul(4) >= carried && is_grown;
        is_kept || (grows && carried >= 4 * PILED)
    }

    /// Arrays of the ring that are alive.
    fn carried_now(&self) -> u64 {
        self.known.counts.get(Counter::RingBlocks)
    }

    /// How entries differ from each other that no plan serves.
    fn differences(&self) -> Option<Finding> {
        if !self.is_frequent(Fact::Unplanned, 2) {
            return None;
        }
        let recorded = self.last(Fact::Recorded);
        let causes = [
            (Fact::UnlikeDrops, Cause::ChangingDrops),
            (Fact::UnlikeEscapes, Cause::Escapes),
            (Fact::UnlikeSize, Cause::ChangingShapes),
            (Fact::UnlikeOrder, Cause::ChangingOrder),
        ];
        let seen = causes.map(|(fact, cause)| (self.known.facts.lately(fact, recorded), fact, cause));
        let (most, fact, cause) = seen.into_iter().max_by_key(|(amount, ..)| amount.entries)?;
        let unplanned = self.lately(Fact::Unplanned);
        let amount = FactCount {
            bytes: most.bytes / most.entries.max(1),
            events: self.mean.saturating_mul(unplanned.entries),
            ..unplanned
        };
        (most.entries > 1).then(|| self.finding_of(cause, fact, amount, self.span))
    }

    /// Nothing is wrong with the entries, and still there is no room for their plan.
    fn no_stretch(&self) -> Option<Finding> {
        let is_refused = self.lacks_arena() && self.last(Fact::NoStretch) > 0;
        is_refused.then(|| self.refused(Cause::Short, Fact::NoStretch))
    }

    fn lately(&self, fact: Fact) -> FactCount {
        self.known.facts.lately(fact, self.known.clock)
    }

    /// The entry in which it was seen last, or 0.
    fn last(&self, fact: Fact) -> u64 {
        self.known.facts.last(fact).unwrap_or(0)
    }

    /// Whether it is seen in one of so many entries, and again and again until now.
    fn is_frequent(&self, fact: Fact, share: u64) -> bool {
        let FactCount { entries, events, .. } = self.lately(fact);
        events > 1
            && entries.saturating_mul(share) >= self.span
            && self.last(fact).saturating_add(OVER) > self.known.clock
    }

    fn is_much(&self, fact: Fact) -> bool {
        self.lately(fact).events.saturating_mul(FEW) >= self.mean.saturating_mul(self.span)
    }

    /// Whether its plans lack an arena, and did in most entries.
    fn lacks_arena(&self) -> bool {
        self.stats.plan.unplanned == Some(Unplanned::Short) && self.is_frequent(Fact::Unplanned, 2)
    }

    fn found(&self, cause: Cause, fact: Fact) -> Finding {
        self.finding_of(cause, fact, self.lately(fact), self.span)
    }

    /// There was no room for the plans, so that all allocations go without.
    fn refused(&self, cause: Cause, fact: Fact) -> Finding {
        let unplanned = self.lately(Fact::Unplanned);
        let amount = FactCount {
            bytes: self.stats.plan.arena_bytes,
            events: self.mean.saturating_mul(unplanned.entries),
            ..unplanned
        };
        self.finding_of(cause, fact, amount, self.span)
    }

    /// The same, with the limit that is in the way.
    fn limited(&self, mut finding: Finding) -> Finding {
        let plan = Bytes(self.stats.plan.arena_bytes);
        finding
            .details
            .extend(self.known.limit.map(|limit| format!("the limit is {} and the plan has {plan}", Bytes(limit))));
        finding
    }

    /// What concerns all entries.
    fn whole(&self, cause: Cause, bytes: u64) -> Finding {
        let stats = &self.stats;
        let (entries, allocations) = (stats.entries, stats.allocations());
        let share = if allocations > 0 { 1.0 } else { 0.0 };
        let (sites, details) = (Vec::new(), Vec::new());
        Finding { cause, entries, of_entries: entries, allocations, share, bytes, sites, details }
    }

    fn finding_of(&self, cause: Cause, fact: Fact, amount: FactCount, of_entries: u64) -> Finding {
        let FactCount { entries, events, bytes } = amount;
        let samples = self.known.facts.samples(fact);
        let all = self.mean.saturating_mul(of_entries).max(events).max(1);
        let (sites, details) = (samples.iter().filter_map(|sample| sample.site), samples.iter().map(told));
        Finding {
            cause,
            entries,
            of_entries: of_entries.max(entries),
            allocations: events,
            share: events as f64 / all as f64,
            bytes,
            sites: sites.collect(),
            details: details.collect(),
        }
    }
}
