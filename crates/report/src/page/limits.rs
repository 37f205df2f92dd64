//! Replays the device with the highest peak under lower and lower limits, on a device without memory whose pages have the same size.

use std::num::NonZeroUsize;

use crate::error::Result;
use crate::lives;
use crate::replay::{History, Policy, dry_run};
use crate::run::Run;

/// The limits, as hundredths of the peak of reserved memory.
const SHARES: [u64; 9] = [100, 98, 95, 90, 80, 70, 60, 50, 40];

/// The replays of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Limits {
    pub(super) device: u64,
    pub(super) page_bytes: u64,
    pub(super) rows: Vec<Limited>,
}

/// The outcome of a replay under a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limited {
    pub(super) limit_bytes: u64,
    /// Allocations that found no memory.
    pub(super) out_of_memory: u64,
    pub(super) reserved_bytes: u64,
    /// The share of the allocations in the steady state that a plan served, from 0 to 1.
    pub(super) planned_share: f64,
}

/// The replays, from the largest limit down to half of the peak of live memory. A run that cannot be replayed has none.
pub(super) fn of(name: &str, run: &Run) -> Limits {
    let device = largest(run);
    let Ok(history) = History::of_device(name, run, device) else { return Limits::default() };
    let reserved = run.reserved.iter().filter(|reserved| reserved.device == device);
    let peak = reserved.map(|reserved| reserved.bytes).max().unwrap_or(0).max(history.peak_live_bytes());
    let limits = SHARES.map(|share| (u128::from(peak) * u128::from(share) / 100) as u64);
    let page = history.page_bytes();
    // A device reserves whole pages, so less than a page serves nothing.
    let is_worth = |limit: &u64| *limit >= history.peak_live_bytes() / 2 && (*limit == peak || *limit >= page);
    let rows = limits.into_iter().filter(is_worth).map_while(|limit| replayed(&history, limit).ok()).collect();
    Limits { device, page_bytes: page, rows }
}

/// The device with the highest peak of live memory. Of several it is the one with the lowest number.
fn largest(run: &Run) -> u64 {
    let peaks = lives::peaks(run);
    peaks.iter().max_by_key(|(device, peak)| (peak.bytes, u64::MAX - **device)).map_or(0, |(device, _)| *device)
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
    use crate::run::Reserved;
    use crate::run::file::parse;

    /// Ten entries of a scope, each with two live arrays of 4 MiB. The run comes from a text, since a real trace would have the
    /// allocations of all tests in this process.
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
        let Limits { device, page_bytes, rows: limited } = of("ten steps", &ten_steps());
        assert_eq!((device, page_bytes), (1, 2 << 20));
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
        assert_eq!(of("twice", &run), Limits::default());
    }

    /// Arrays of 40 KB on a host with pages of 64 KiB. With the pages of a GPU, the memory of the host would be too little.
    #[test]
    fn a_run_is_replayed_with_the_pages_of_its_device() {
        let mut run = ten_steps();
        run.events.iter_mut().filter(|event| event.bytes > 0).for_each(|event| event.bytes = 40_000);
        run.reserved = vec![Reserved { before: 0, time_ns: 0, device: 1, bytes: 128 << 10 }];
        let fails = |run: &Run| of("host", run).rows[0].out_of_memory;
        assert!(fails(&run) > 0);
        assert_eq!(of("host", &run).rows.len(), 1, "less than a page serves nothing");
        run.page_bytes.insert(1, 64 << 10);
        assert_eq!((fails(&run), of("host", &run).rows[0].limit_bytes), (0, 128 << 10));
    }

    /// Another device has twice the arrays, which are not in the replay.
    #[test]
    fn one_device_is_replayed() {
        let mut run = ten_steps();
        let mut other = ten_steps();
        other
            .events
            .iter_mut()
            .for_each(|event| (event.device, event.id, event.bytes) = (2, event.id + 1000, event.bytes / 2));
        run.events.extend(other.events.into_iter().filter(|event| event.bytes > 0));
        let limits = of("two devices", &run);
        assert_eq!((limits.device, limits.rows[0].limit_bytes, limits.rows[0].out_of_memory), (1, 8 << 20, 0));
    }
}
