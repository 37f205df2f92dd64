//! Puts the events of several threads in one order.
//!
//! Each thread's events are in order already. An event happened after its thread read the clock, and before the thread read it
//! again. Within these bounds, an array may be allocated by one thread and freed by another, or an address may go from one to the
//! other. Only one order is then possible, since an address is in use only once at a time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::iter::Peekable;
use std::vec::IntoIter;

use super::event::Action;
use super::packed::{Lies, Packed};

/// The remaining events of one thread, each with the time before which it happened.
type Remaining = Peekable<IntoIter<(Packed, u64)>>;

/// The next event of each thread that has one: its time, and the thread. The earliest comes first.
type Heads = BinaryHeap<Reverse<(u64, usize)>>;

/// For each address, how many allocations and frees are still to come.
type Coming = HashMap<Lies, (u32, u32)>;

/// All events in one order, each with the number of its thread. Times never decrease.
pub(super) fn merge(threads: Vec<Vec<Packed>>) -> Vec<(u32, Packed)> {
    let all = threads.iter().map(Vec::len).sum();
    let mut coming = Coming::new();
    threads.iter().flatten().for_each(|event| count(&mut coming, event).into_iter().for_each(|count| *count += 1));
    let mut sources: Vec<Remaining> =
        threads.into_iter().map(|events| bounded(events).into_iter().peekable()).collect();
    let mut heads: Heads = (0..sources.len()).filter_map(|thread| head(&mut sources, thread)).collect();
    let (mut merged, mut live, mut time) = (Vec::with_capacity(all), HashSet::new(), 0);
    while let Some(thread) = next(&mut heads, &mut sources, |event| fits(event, &live, &coming)) {
        let Some((mut event, _)) = sources[thread].next() else { break };
        heads.extend(head(&mut sources, thread));
        count(&mut coming, &event).into_iter().for_each(|count| *count -= 1);
        match event.action {
            Action::Allocated => _ = live.insert(event.lies()),
            Action::Freed => _ = live.remove(&event.lies()),
            Action::Entered | Action::Left | Action::Short | Action::Reserved => {}
        }
        time = event.time.max(time);
        event.time = time;
        merged.push((thread as u32, event));
    }
    merged
}

fn head(sources: &mut [Remaining], thread: usize) -> Option<Reverse<(u64, usize)>> {
    sources[thread].peek().map(|(event, _)| Reverse((event.time, thread)))
}

/// Adds to each event the time of its thread's next reading. The event's own time is spread evenly between the readings before and
/// after it, since no more is known.
fn bounded(events: Vec<Packed>) -> Vec<(Packed, u64)> {
    let mut bounded: Vec<(Packed, u64)> = events.into_iter().map(|event| (event, u64::MAX)).collect();
    let mut next = u64::MAX;
    for group in bounded.chunk_by_mut(|(one, _), (other, _)| one.time == other.time).rev() {
        let (reading, events) = (group[0].0.time, group.len() as u64);
        // After the last reading, there is no other one.
        let step = if next == u64::MAX { 0 } else { next.saturating_sub(reading) / events };
        for ((event, bound), place) in group.iter_mut().zip(0..) {
            (event.time, *bound) = (reading + place * step, next);
        }
        next = reading;
    }
    bounded
}

/// The thread whose event comes next. This is the earliest event, unless its address shows that another event came before it, and
/// that event's bounds allow it. The thread no longer stands among the heads.
fn next(heads: &mut Heads, sources: &mut [Remaining], fits: impl Fn(&Packed) -> bool) -> Option<usize> {
    let first = heads.pop()?;
    let Reverse((_, thread)) = first;
    let (event, bound) = sources[thread].peek()?;
    if fits(event) {
        return Some(thread);
    }
    let (bound, mut passed, mut other) = (*bound, Vec::new(), None);
    while other.is_none() && heads.peek().is_some_and(|Reverse((time, _))| *time <= bound) {
        let Some(Reverse((time, thread))) = heads.pop() else { break };
        match sources[thread].peek() {
            Some((event, _)) if fits(event) => other = Some(thread),
            _ => passed.push(Reverse((time, thread))),
        }
    }
    heads.extend(passed);
    heads.extend(other.map(|_| first));
    Some(other.unwrap_or(thread))
}

/// The number of allocations or frees of an address that are still to come, for an event that is one of them.
fn count<'a>(coming: &'a mut Coming, event: &Packed) -> Option<&'a mut u32> {
    match event.action {
        Action::Allocated => Some(&mut coming.entry(event.lies()).or_default().0),
        Action::Freed => Some(&mut coming.entry(event.lies()).or_default().1),
        Action::Entered | Action::Left | Action::Short | Action::Reserved => None,
    }
}

/// Whether an event fits while these addresses are in use, or has no event of its address to wait for: a free for an allocation, or an
/// allocation for a free. The free of an array that was allocated before the trace has nothing to wait for. Without this rule, all threads
/// would be checked for each such free.
fn fits(event: &Packed, live: &HashSet<Lies>, coming: &Coming) -> bool {
    let (allocated, freed) = coming.get(&event.lies()).copied().unwrap_or_default();
    match event.action {
        Action::Allocated => !live.contains(&event.lies()) || freed == 0,
        Action::Freed => live.contains(&event.lies()) || allocated == 0,
        Action::Entered | Action::Left | Action::Short | Action::Reserved => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: u64, action: Action, address: u64) -> Packed {
        Packed { time, action, address, bytes: 8, ..Packed::BARE }
    }

    fn order(threads: Vec<Vec<Packed>>) -> Vec<(u32, Action, u64)> {
        let merged = merge(threads);
        assert!(merged.is_sorted_by_key(|(_, event)| event.time), "times fall");
        merged.into_iter().map(|(thread, event)| (thread, event.action, event.address)).collect()
    }

    #[test]
    fn events_come_by_their_times() {
        use Action::{Allocated, Freed};
        let one = vec![event(1, Allocated, 10), event(5, Freed, 10)];
        let other = vec![event(2, Allocated, 20), event(3, Freed, 20)];
        let expected = [(0, Allocated, 10), (1, Allocated, 20), (1, Freed, 20), (0, Freed, 10)];
        assert_eq!(order(vec![one, other]), expected);
    }

    #[test]
    fn times_are_spread_between_two_readings() {
        use Action::{Allocated, Freed};
        let events = [(100, Allocated), (100, Freed), (100, Allocated), (160, Freed), (160, Allocated)];
        let merged = merge(vec![events.map(|(time, action)| event(time, action, 10)).to_vec()]);
        assert!(merged.iter().map(|(_, event)| event.time).eq([100, 120, 140, 160, 160]));
    }

    #[test]
    fn what_was_handed_on_is_allocated_before_it_is_freed_and_freed_before_it_is_allocated() {
        use Action::{Allocated, Freed};
        // The first thread read its clock at 1 and at 9. In between it allocated address 10 twice, and the other thread freed it in
        // between.
        let one = vec![event(1, Allocated, 10), event(1, Allocated, 10), event(9, Freed, 30)];
        let other = vec![event(0, Freed, 10), event(8, Freed, 10)];
        let expected = [(0, Allocated, 10), (1, Freed, 10), (0, Allocated, 10), (1, Freed, 10), (0, Freed, 30)];
        assert_eq!(order(vec![one, other]), expected);
    }

    /// If each event had to check all threads, this would take minutes.
    #[test]
    fn many_threads_are_merged_as_fast_as_few() {
        use Action::{Allocated, Freed};
        let thread = |at: u64| (0..20).map(move |n| event(at + n, if n % 2 == 0 { Allocated } else { Freed }, at));
        let began = std::time::Instant::now();
        let merged = merge((0..20_000).map(|at| thread(at).collect()).collect());
        assert_eq!(merged.len(), 400_000);
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    }

    #[test]
    fn frees_of_before_the_trace_are_merged_as_fast() {
        let thread = |at: u64| (0..20).map(move |n| event(1, Action::Freed, 100 * at + n)).collect();
        let began = std::time::Instant::now();
        assert_eq!(merge((0..20_000).map(thread).collect()).len(), 400_000);
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    }

    #[test]
    fn a_free_of_before_the_trace_waits_for_nobody() {
        use Action::{Allocated, Freed};
        let one = vec![event(1, Freed, 99), event(2, Allocated, 10)];
        let other = vec![event(500, Allocated, 20)];
        assert_eq!(order(vec![one, other]), [(0, Freed, 99), (0, Allocated, 10), (1, Allocated, 20)]);
    }
}
