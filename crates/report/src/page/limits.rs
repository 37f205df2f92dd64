//! What a run does in less memory: replays on a device without memory, whose pages are those of a GPU.

use std::num::NonZeroUsize;

use crate::error::Result;
use crate::replay::{History, Policy, dry_run};
use crate::run::Run;

/// The limits, as hundredths of what the run held at most.
const SHARES: [u64; 9] = [100, 98, 95, 90, 80, 70, 60, 50, 40];

/// What a replay under a limit gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limited {
    pub(super) limit_bytes: u64,
    /// Allocations that found no memory.
    pub(super) out_of_memory: u64,
    pub(super) reserved_bytes: u64,
    /// Of the allocations in the steady state, from 0 to 1.
    pub(super) planned_share: f64,
}

/// From the largest limit to the first one under which less than half of all that was alive fits; none of a run that cannot be replayed.
pub(super) fn of(name: &str, run: &Run) -> Vec<Limited> {
    let Ok(history) = History::of(name, run) else { return Vec::new() };
    let held = run.reserved.iter().map(|reserved| reserved.bytes).max().unwrap_or(0).max(history.peak_live_bytes());
    let limits = SHARES.map(|share| (u128::from(held) * u128::from(share) / 100) as u64);
    let worth = limits.into_iter().filter(|limit| *limit >= history.peak_live_bytes() / 2);
    worth.map_while(|limit| replayed(&history, limit).ok()).collect()
}

fn replayed(history: &History, limit_bytes: u64) -> Result<Limited> {
    let figures = dry_run(history, Policy::Auto, Some(limit_bytes), NonZeroUsize::MIN)?;
    Ok(Limited {
        limit_bytes,
        out_of_memory: figures.out_of_memory,
        reserved_bytes: figures.peak_reserved_bytes,
        planned_share: figures.steady.planned,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::run::file::parse;

    /// Ten entries of a scope, in each of which two arrays of 4 MiB are alive at once: as a file, since a trace that is on is one of
    /// the whole process, and tells what the tests beside allocate.
    fn ten_steps() -> Run {
        let mut text =
            "step,op,id,bytes,stream,time_ns,thread,scope,served,address,dtype,shape,site,device\n".to_owned();
        let mut line = |step: u64, op: &str, id: u64, bytes: u64| {
            let address = if id.is_multiple_of(2) { 0x40_0000 } else { 0x80_0000 };
            text += &format!("{step},{op},{id},{bytes},1,0,0,step,,{address:#x},u8,{bytes},,1\n");
        };
        for step in 1..=10 {
            let both = [2 * step, 2 * step + 1];
            line(step, "enter", 0, 0);
            both.into_iter().for_each(|id| line(step, "a", id, 4 << 20));
            both.into_iter().for_each(|id| line(step, "f", id, 4 << 20));
            line(step, "leave", 0, 0);
        }
        parse(&text).unwrap()
    }

    #[test]
    fn a_run_fits_what_it_held_and_not_half_of_it() {
        let limited = of("ten steps", &ten_steps());
        let all = limited.first().unwrap();
        assert_eq!((all.limit_bytes, all.out_of_memory, all.planned_share), (8 << 20, 0, 1.0));
        let half = limited.iter().find(|each| each.limit_bytes == 4 << 20).unwrap();
        assert_eq!((half.out_of_memory, half.reserved_bytes), (10, 4 << 20));
    }

    #[test]
    fn a_run_that_contradicts_itself_has_none() {
        let mut run = crate::run::tests::example();
        run.events.retain(|event| event.id != 1);
        run.events[1].id = 3;
        assert_eq!(of("twice", &run), []);
    }
}
