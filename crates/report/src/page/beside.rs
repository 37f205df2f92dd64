//! Finds the arrays that no plan served although their scope has a plan, and the cause, as far as the trace proves it.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::lives::Life;
use crate::run::{Event, Op, Run};

/// Why the plan did not serve an array. The first cause that applies counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Cause {
    /// The scope had no plan yet.
    Learning,
    /// The plan serves another stream.
    Stream,
    /// No earlier entry of the scope had this type and shape.
    NewShape,
    /// It was alive when its entry was left.
    Outlives,
    /// The entry differs from the entry before in this allocation or an earlier one.
    Order,
    /// No plan of the scope ever served this type and shape.
    Unplanned,
    /// No other cause applies.
    Unknown,
}

impl Cause {
    pub(super) const ALL: [(Cause, &'static str); 7] = [
        (Cause::Learning, "the scope was still learning"),
        (Cause::Stream, "on another stream than the plan"),
        (Cause::NewShape, "a shape that no entry had before"),
        (Cause::Outlives, "outlives its entry"),
        (Cause::Order, "the order of allocations changed"),
        (Cause::Unplanned, "no plan ever served this shape"),
        (Cause::Unknown, "the trace does not contain the cause"),
    ];
}

/// A scope on a thread. Each has its own plan.
type Owner<'r> = (u64, &'r str);

/// An entry of a scope.
#[derive(Debug, Default)]
struct Entry {
    left: Option<usize>,
    sizes: Vec<u64>,
    /// Whether all sizes so far are equal to those of the entry before.
    is_alike: bool,
}

/// The past of a scope on a thread.
#[derive(Debug, Default)]
struct Past<'r> {
    /// The event of the first allocation by plan.
    planned_since: Option<usize>,
    /// The streams that plans served, and the types and shapes.
    streams: HashSet<u64>,
    planned: HashSet<(&'r str, &'r str)>,
    /// Its last entry, by the number among all entries.
    last: Option<usize>,
    /// The entry in which a type and shape came first.
    shapes: HashMap<(&'r str, &'r str), usize>,
}

#[derive(Debug, Default)]
struct Pasts<'r> {
    pasts: HashMap<Owner<'r>, Past<'r>>,
    entries: Vec<Entry>,
    /// The entries that each thread is in, from the outermost.
    open: HashMap<u64, Vec<(&'r str, usize)>>,
}

/// Facts about an allocation at its time.
#[derive(Clone, Copy, Debug)]
struct Seen {
    entry: Option<usize>,
    is_new: bool,
    is_alike: bool,
}

/// The cause of each array. `None` for an array that a plan served, or whose scope has no plan.
pub(super) fn causes(run: &Run, lives: &[Life<'_>]) -> Vec<Option<Cause>> {
    let mut pasts = Pasts::default();
    pasts.find_plans(lives);
    let seen: Vec<Seen> = run.events.iter().enumerate().filter_map(|(place, event)| pasts.see(place, event)).collect();
    lives.iter().zip(seen).map(|(life, seen)| pasts.cause(life, seen)).collect()
}

impl<'r> Pasts<'r> {
    fn find_plans(&mut self, lives: &[Life<'r>]) {
        for life in lives.iter().filter(|life| life.allocation.served == "plan") {
            let past = self.pasts.entry((life.allocation.thread, &life.allocation.scope)).or_default();
            past.planned_since.get_or_insert(life.start);
            past.streams.insert(life.allocation.stream);
            past.planned.insert((&life.allocation.dtype, &life.allocation.shape));
        }
    }

    /// Takes an event. Returns the facts about an allocation.
    fn see(&mut self, place: usize, event: &'r Event) -> Option<Seen> {
        let open = self.open.entry(event.thread).or_default();
        match event.op {
            Op::Enter => {
                open.push((&event.scope, self.entries.len()));
                self.entries.push(Entry { is_alike: true, ..Entry::default() });
            }
            Op::Leave => {
                let entry = open.iter().rposition(|(scope, _)| *scope == event.scope);
                if let Some((scope, entry)) = entry.map(|place| open.remove(place)) {
                    self.entries[entry].left = Some(place);
                    self.pasts.entry((event.thread, scope)).or_default().last = Some(entry);
                }
            }
            Op::Allocate => return Some(self.allocate(event)),
            Op::Free | Op::Short => {}
        }
        None
    }

    fn allocate(&mut self, event: &'r Event) -> Seen {
        let innermost = self.open.get(&event.thread).and_then(|open| open.last());
        let Some(&(_, entry)) = innermost.filter(|(scope, _)| *scope == event.scope) else {
            return Seen { entry: None, is_new: false, is_alike: true };
        };
        let past = self.pasts.entry((event.thread, &event.scope)).or_default();
        let since = *past.shapes.entry((&event.dtype, &event.shape)).or_insert(entry);
        let place = self.entries[entry].sizes.len();
        let before = past.last.and_then(|last| self.entries[last].sizes.get(place)).copied();
        let now = &mut self.entries[entry];
        now.sizes.push(event.bytes);
        now.is_alike &= before == Some(event.bytes);
        Seen { entry: Some(entry), is_new: since == entry, is_alike: now.is_alike }
    }

    fn cause(&self, life: &Life<'_>, seen: Seen) -> Option<Cause> {
        let Event { thread, scope, served, stream, dtype, shape, .. } = life.allocation;
        let past = self.pasts.get(&(*thread, &**scope)).filter(|_| served != "plan")?;
        let is_past = |left: usize| life.free.is_none_or(|free| free > left);
        let outlives = seen.entry.and_then(|entry| self.entries[entry].left).is_some_and(is_past);
        let since = past.planned_since?;
        let so = [
            (life.start < since, Cause::Learning),
            (!past.streams.contains(stream), Cause::Stream),
            (seen.is_new, Cause::NewShape),
            (outlives, Cause::Outlives),
            (!seen.is_alike, Cause::Order),
            (!past.planned.contains(&(&**dtype, &**shape)), Cause::Unplanned),
        ];
        so.into_iter().find(|(is_so, _)| *is_so).map_or(Some(Cause::Unknown), |(_, cause)| Some(cause))
    }
}

/// The arrays that no plan served, by scope, type, shape, cause and what served them, with their number, bytes and source line. The most
/// bytes come first.
pub(super) fn groups(lives: &[Life<'_>], causes: &[Option<Cause>]) -> Vec<Value> {
    let mut groups: HashMap<_, (u64, u64)> = HashMap::new();
    for (life, cause) in lives.iter().zip(causes).filter_map(|(life, cause)| Some((life, (*cause)?))) {
        let Event { scope, dtype, shape, served, bytes, site, .. } = life.allocation;
        let (arrays, sum) = groups.entry((scope, dtype, shape, cause, served, site)).or_default();
        *arrays += 1;
        *sum = sum.saturating_add(*bytes);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by_key(|(key, (_, bytes))| (u64::MAX - bytes, *key));
    let row = |((scope, dtype, shape, cause, served, site), (arrays, bytes))| {
        json!([scope, dtype, shape, cause as usize, served, arrays, bytes, site])
    };
    groups.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::lives;
    use crate::run::file::parse;

    const HEADER: &str = "step,op,id,bytes,stream,time_ns,thread,scope,served,address,dtype,shape,site,device\n";

    /// Entries of one scope: each allocation is bytes, stream, what served it, and whether it is freed in its entry.
    fn run(entries: &[&[(u64, u64, &str, bool)]]) -> Run {
        let (mut text, mut id) = (HEADER.to_owned(), 0);
        for entry in entries {
            text += "1,enter,0,0,0,0,0,s,,0x0,,,,0\n";
            for (bytes, stream, served, is_freed) in *entry {
                id += 1;
                let at = id * 4096;
                text += &format!("1,a,{id},{bytes},{stream},0,0,s,{served},{at:#x},u8,{bytes},,1\n");
                if *is_freed {
                    text += &format!("1,f,{id},{bytes},{stream},0,0,s,,{at:#x},,,,1\n");
                }
            }
            text += "1,leave,0,0,0,0,0,s,,0x0,,,,0\n";
        }
        parse(&text).unwrap()
    }

    fn found(run: &Run) -> Vec<Option<Cause>> {
        causes(run, &lives(run))
    }

    #[test]
    fn each_cause_is_found() {
        let planned = (10, 1, "plan", true);
        let run = run(&[
            &[(10, 1, "range", true), (20, 1, "range", true)],
            &[planned, (20, 1, "plan", true)],
            &[planned, (20, 2, "range", true)],
            &[planned, (30, 1, "range", true)],
            &[planned, (30, 1, "list", false)],
            &[(30, 1, "list", true), (10, 1, "list", true)],
            &[(30, 1, "list", true)],
            &[(10, 1, "plan", true)],
            &[(10, 1, "list", true)],
        ]);
        use Cause::{Learning, NewShape, Order, Outlives, Stream, Unknown, Unplanned};
        let learning = [Some(Learning), Some(Learning), None, None];
        let others = [None, Some(Stream), None, Some(NewShape), None, Some(Outlives)];
        let last = [Some(Order), Some(Order), Some(Unplanned), None, Some(Unknown)];
        assert_eq!(found(&run), [&learning[..], &others, &last].concat());
    }

    #[test]
    fn a_scope_without_a_plan_has_nothing_beside_one() {
        assert_eq!(found(&run(&[&[(10, 1, "range", true)], &[(10, 1, "list", true)]])), [None, None]);
    }

    #[test]
    fn what_is_alike_is_one_group() {
        let run = run(&[&[(10, 1, "range", true), (10, 1, "range", true)], &[(10, 1, "plan", true)]]);
        let lives = lives(&run);
        assert_eq!(groups(&lives, &causes(&run, &lives)), [json!(["s", "u8", "10", 0, "range", 2, 20, ""])]);
    }
}
