//! Pure rules that find the cause behind the facts of a scope on one thread.
//!
//! One cause shows in many facts: a scope that the program always invalidates is never planned, and changing sizes cause
//! deviations. So the rules have an order:
//!
//! 1. settings that the program chose, and whatever takes or limits the memory, since they explain the rest;
//! 2. leaks;
//! 3. scopes in the wrong place;
//! 4. the behaviour of entries: the cause with the most entries, first for entries that deviate from a plan, then for entries without
//!    a plan.

use std::panic::Location;

use super::MOST_SITES;
use super::cause::Cause;
use super::finding::{Finding, told};
use crate::stats::{ScopeStats, Unplanned};
use gpucache_engine::base::amounts::Bytes;
use gpucache_engine::cache::ScopeFacts;
use gpucache_engine::home::{Counter, Fact, FactCount, Facts, Sample};

/// Fewer entries are too early to tell: the first two are learned from, and plans settle in the next ones.
const EARLY: u64 = 8;
/// A fact that occurs in a smaller share of entries (one in so many) is no finding.
const SELDOM: u64 = 8;
/// The same for deviations, so that occasional work such as a validation is no finding.
const DEVIATING: u64 = 3;
/// A fact that concerns a smaller share of allocations is no finding.
const FEW: u64 = 128;
/// A fact that did not occur in the last entries, as many as this, is over.
const OVER: u64 = Facts::WINDOW / 2;
/// So many entries that are empty or nested are no accident.
const MANY: u64 = 16;
/// So many equal rounds in an entry are a loop.
const ROUNDS: u64 = 16;
/// If hardly any of so many arrays that outlived their entries was dropped, arrays pile up.
const PILED: u64 = 32;
/// Growth by so many live arrays, in most of all entries, is a leak.
const LEAKED: u64 = 3;
/// `recycle = "keyed"` keeps a block for each shape. Up to so many times the peak of live memory is no waste.
const WASTE: u64 = 2;
/// Less idle memory than a page of a host is no waste.
const LITTLE: u64 = 64 << 10;

/// A scope on a thread: its facts, and the entries that they cover.
pub(super) struct Case<'a> {
    known: &'a ScopeFacts,
    stats: ScopeStats,
    /// The entries that recent facts cover.
    span: u64,
    /// Whether placed arrays are prefetched for the scope. Fetches are no allocations, and their schedule needs the scope.
    prefetches: bool,
}

impl<'a> Case<'a> {
    pub(super) fn new(known: &'a ScopeFacts, prefetches: bool) -> Case<'a> {
        let (clock, stats) = (known.clock, ScopeStats::of(&known.counts));
        let span = clock - (clock / Facts::WINDOW).saturating_sub(1) * Facts::WINDOW;
        Case { known, stats, span: span.max(1), prefetches }
    }

    /// How often the scope was entered.
    pub(super) fn entries(&self) -> u64 {
        self.stats.entries
    }

    /// Whether the scope plans, and had too few entries to tell how.
    pub(super) fn is_early(&self) -> bool {
        (1..EARLY).contains(&self.known.clock)
    }

    /// How many arrays of earlier entries are alive, if their number rose so far and it is too early to tell whether they leak. 0 while a
    /// thread is inside the scope, since arrays of its entry are alive then.
    pub(super) fn still_alive(&self) -> u64 {
        let (alive, known) = (self.stats.busy_blocks, self.known);
        if !known.is_entered && known.facts.rose_so_far(alive) { alive } else { 0 }
    }

    /// The problem of the scope on this thread, if there is one.
    pub(super) fn finding(&self) -> Option<Finding> {
        let of_memory = self.chosen().or_else(|| self.in_the_way()).or_else(|| self.leak());
        of_memory.or_else(|| self.misplaced()).or_else(|| self.of_entries())
    }

    /// Settings of the program.
    fn chosen(&self) -> Option<Finding> {
        let (stats, keeps_all) = (&self.stats, self.known.keeps_all);
        if self.is_frequent(Fact::Unkept, SELDOM) {
            return Some(self.found(Cause::NotRecycled, Fact::Unkept));
        }
        let held = stats.busy_bytes.saturating_add(stats.idle_bytes);
        let waste = held.saturating_sub(stats.high_water_bytes);
        if keeps_all && waste > stats.high_water_bytes.saturating_mul(WASTE).max(LITTLE) {
            return Some(Finding { allocations: 0, share: 0.0, ..self.whole(Cause::KeyedWaste, waste) });
        }
        None
    }

    /// Limits, shortages, invalidations, and memory that returns to the device.
    fn in_the_way(&self) -> Option<Finding> {
        self.limit().or_else(|| {
            let causes = [(Fact::Short, Cause::Short), (Fact::Invalidated, Cause::Invalidated)];
            let is_so = |&(fact, _): &(Fact, Cause)| self.is_frequent(fact, SELDOM) && self.lately(fact).entries > 2;
            let found = causes.into_iter().find(is_so).map(|(fact, cause)| self.found(cause, fact));
            found.or_else(|| self.goes_back())
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

    /// The scope loses its memory between entries, and takes memory from the device again. Names whoever takes it most often.
    fn goes_back(&self) -> Option<Finding> {
        let causes = [
            (Fact::Trimmed, Cause::Trimmed),
            (Fact::OverIdleLimit, Cause::IdleLimit),
            (Fact::Displaced, Cause::Displaced),
        ];
        let is_often = |fact| self.is_frequent(fact, SELDOM / 2);
        let often = causes.into_iter().filter(|&(fact, _)| is_often(fact));
        let (fact, cause) = often.max_by_key(|&(fact, _)| self.lately(fact).entries)?;
        (self.known.clock >= EARLY && is_often(Fact::Taken)).then(|| self.found(cause, fact))
    }

    /// More and more arrays are alive. That explains changes of order and size, so this rule comes before those.
    fn leak(&self) -> Option<Finding> {
        let stats = &self.stats;
        let (arrays, bytes, entries) = self.known.facts.growth(LEAKED)?;
        let mean = stats.allocations() as f64 / stats.entries.max(1) as f64;
        let share = (arrays as f64 / (mean * entries as f64).max(1.0)).min(1.0);
        let grown = format!("{arrays} more arrays are alive than {entries} entries before: {} more", Bytes(bytes));
        let (sites, mut details) = shown(self.escaped());
        details.insert(0, grown);
        let (cause, seen) = (Cause::Escapes, arrays.min(entries));
        Some(Finding { cause, entries: seen, of_entries: entries, allocations: arrays, share, bytes, sites, details })
    }

    /// The scope does not enclose what repeats.
    fn misplaced(&self) -> Option<Finding> {
        let (stats, ScopeFacts { clock, repeats, .. }) = (&self.stats, self.known);
        let is_entered = stats.entries >= MANY;
        let is_empty = is_entered && stats.allocations() < stats.entries.div_ceil(SELDOM);
        let causes = [
            (Cause::Empty, is_empty && !self.prefetches),
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

    /// The behaviour of entries.
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

    /// Memory waits for the work of other streams.
    fn used_elsewhere(&self) -> Option<Finding> {
        let used = self.lately(Fact::UsedElsewhere);
        let waits = used.bytes / used.entries.max(1);
        let is_much = used.events / 2 >= used.entries && waits.saturating_mul(SELDOM) >= self.stats.high_water_bytes;
        let is_used = is_much && self.is_frequent(Fact::UsedElsewhere, SELDOM);
        is_used.then(|| Finding { bytes: waits, ..self.found(Cause::UsedElsewhere, Fact::UsedElsewhere) })
    }

    /// How entries deviate from their plan: the cause with the most entries.
    fn deviations(&self) -> Option<Finding> {
        if self.piles_up() {
            return Some(self.piled());
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

    /// All live arrays of the scope: hardly any array that outlived its entry was dropped.
    fn piled(&self) -> Finding {
        let stats = &self.stats;
        let allocations = stats.busy_blocks.max(self.carried_now());
        let share = allocations as f64 / stats.allocations().max(allocations).max(1) as f64;
        let (sites, details) = shown(self.escaped());
        let entries = stats.entries.min(allocations);
        Finding { entries, allocations, share, sites, details, ..self.whole(Cause::Escapes, stats.busy_bytes) }
    }

    /// Examples of arrays that outlived their entry: those that the engine has watched. If there are none, those for which the ring
    /// grew, and those beside the ring.
    fn escaped(&self) -> impl Iterator<Item = &Sample> {
        let (facts, kept) = (&self.known.facts, &self.known.facts.kept);
        let others = if kept.is_empty() { &[Fact::RingGrew, Fact::Aside, Fact::UnlikeEscapes][..] } else { &[] };
        kept.iter().chain(others.iter().flat_map(|fact| facts.samples(*fact)))
    }

    /// Whether arrays that outlive their entry are hardly ever dropped, or more and more of them are alive.
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

    /// How entries without a plan differ from each other.
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
        if cause == Cause::Escapes && most.entries > 1 {
            // The fact counts arrays that outlived the recorded entries.
            let share = most.events as f64 / self.usual(most.entries).max(most.events).max(1) as f64;
            return Some(Finding { share, ..self.finding_of(cause, fact, most, self.span) });
        }
        let unplanned = self.lately(Fact::Unplanned);
        let amount =
            FactCount { bytes: most.bytes / most.entries.max(1), events: self.usual(unplanned.entries), ..unplanned };
        (most.entries > 1).then(|| self.finding_of(cause, fact, amount, self.span))
    }

    /// The entries are regular, but there is no room for their plan.
    fn no_stretch(&self) -> Option<Finding> {
        let is_refused = self.lacks_arena() && self.last(Fact::NoStretch) > 0;
        is_refused.then(|| self.refused(Cause::NoRoom, Fact::NoStretch))
    }

    /// The allocations of so many entries on average.
    fn usual(&self, entries: u64) -> u64 {
        let all = u128::from(self.stats.allocations()) * u128::from(entries) / u128::from(self.known.clock.max(1));
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    fn lately(&self, fact: Fact) -> FactCount {
        self.known.facts.lately(fact, self.known.clock)
    }

    /// The last entry with this fact, or 0.
    fn last(&self, fact: Fact) -> u64 {
        self.known.facts.last(fact).unwrap_or(0)
    }

    /// Whether the fact occurs in one of so many entries, more than once, and until now.
    fn is_frequent(&self, fact: Fact, share: u64) -> bool {
        let FactCount { entries, events, .. } = self.lately(fact);
        events > 1
            && entries.saturating_mul(share) >= self.span
            && self.last(fact).saturating_add(OVER) > self.known.clock
    }

    fn is_much(&self, fact: Fact) -> bool {
        self.lately(fact).events.saturating_mul(FEW) >= self.usual(self.span)
    }

    /// Whether the plans have no arena now, and had none in most entries.
    fn lacks_arena(&self) -> bool {
        self.stats.plan.unplanned == Some(Unplanned::Short) && self.is_frequent(Fact::Unplanned, 2)
    }

    fn found(&self, cause: Cause, fact: Fact) -> Finding {
        self.finding_of(cause, fact, self.lately(fact), self.span)
    }

    /// There was no room for the plans, so none of the allocations is planned.
    fn refused(&self, cause: Cause, fact: Fact) -> Finding {
        let unplanned = self.lately(Fact::Unplanned);
        let amount =
            FactCount { bytes: self.stats.plan.arena_bytes, events: self.usual(unplanned.entries), ..unplanned };
        self.finding_of(cause, fact, amount, self.span)
    }

    /// The same, with the limit of the scope.
    fn limited(&self, mut finding: Finding) -> Finding {
        let plan = Bytes(self.stats.plan.arena_bytes);
        let text = |limit| format!("the limit of the scope is {}, and its plan needs {plan}", Bytes(limit));
        finding.details.extend(self.known.limit.map(text));
        finding
    }

    /// A finding about all entries.
    fn whole(&self, cause: Cause, bytes: u64) -> Finding {
        let stats = &self.stats;
        let (entries, allocations) = (stats.entries, stats.allocations());
        let share = if allocations > 0 { 1.0 } else { 0.0 };
        let (sites, details) = (Vec::new(), Vec::new());
        Finding { cause, entries, of_entries: entries, allocations, share, bytes, sites, details }
    }

    fn finding_of(&self, cause: Cause, fact: Fact, amount: FactCount, of_entries: u64) -> Finding {
        let FactCount { entries, events, bytes } = amount;
        let all = self.usual(of_entries).max(events).max(1);
        let samples = self.known.facts.samples(fact).iter();
        // The escaped arrays themselves come before the arrays that found their places taken.
        let (sites, details) = match cause {
            Cause::Escapes => shown(self.escaped().chain(samples)),
            _ => shown(samples),
        };
        Finding {
            cause,
            entries,
            of_entries: of_entries.max(entries),
            allocations: events,
            share: events as f64 / all as f64,
            bytes,
            sites,
            details,
        }
    }
}

/// The source lines of some examples, each once, and a sentence for each line.
fn shown<'s>(samples: impl Iterator<Item = &'s Sample>) -> (Vec<&'static Location<'static>>, Vec<String>) {
    let (mut sites, mut details) = (Vec::new(), Vec::new());
    for sample in samples {
        if details.len() < MOST_SITES && (sample.site.is_none() || !sites.contains(&sample.site)) {
            sites.push(sample.site);
            details.push(told(sample));
        }
    }
    (sites.into_iter().flatten().collect(), details)
}
