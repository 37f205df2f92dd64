//! The positions of an envelope with rooms: its regular allocations, two gates for each room, and in entries of one order, the irregular
//! allocations too.

use super::align::rank;
use super::irregular::Irregular;
use super::zones::Zone;
use crate::entries::log::{Log, Logged, OUTLIVES};

/// A position of the envelope.
#[derive(Clone, Copy)]
pub(super) enum Step<'z> {
    Start(&'z Zone),
    End(&'z Zone),
    /// The regular allocation of this place.
    Regular(u32),
    /// The irregular allocation of this place.
    Irregular(usize),
}

/// The positions of so many regular allocations, and of the irregular ones that are `placed`. A room that lasts to the end of the entry has no
/// end.
pub(super) fn of<'z>(zones: &'z [Zone], placed: &[Irregular], regular: u32) -> Vec<Step<'z>> {
    let (mut steps, mut zones) = (Vec::new(), zones.iter().peekable());
    let mut placed = placed.iter().enumerate().peekable();
    for place in 0..=regular {
        steps.extend(zones.peek().filter(|zone| zone.first == place).map(|&zone| Step::Start(zone)));
        while let Some((number, _)) = placed.next_if(|(_, one)| one.gap == place) {
            steps.push(Step::Irregular(number));
        }
        let ended = zones.next_if(|zone| zone.last == place);
        if place < regular {
            steps.extend(ended.map(Step::End));
            steps.push(Step::Regular(place));
        }
    }
    steps
}

/// The two gates of each room. The end of a room without one is the number of positions.
pub(super) fn gates(steps: &[Step<'_>]) -> Vec<(u32, u32)> {
    let (mut gates, all) = (Vec::new(), steps.len() as u32);
    for (step, at) in steps.iter().zip(0..) {
        match (step, gates.last_mut()) {
            (Step::Start(_), _) => gates.push((at, all)),
            (Step::End(_), Some((_, end))) => *end = at,
            _ => {}
        }
    }
    gates
}

/// The positions of irregular allocations, and their places.
pub(super) fn irregular(steps: &[Step<'_>]) -> impl Iterator<Item = (usize, usize)> {
    let place = |step: &Step<'_>| if let Step::Irregular(place) = *step { Some(place) } else { None };
    steps.iter().enumerate().filter_map(move |(at, step)| Some((at, place(step)?)))
}

/// The regular part of a log, and the gates. The start of a room has the room's bytes; irregular allocations have none.
pub(super) fn part(steps: &[Step<'_>], log: &Log, column: &[u32], irregular: &[Irregular]) -> Log {
    let number = |place: u32| column.get(place as usize).copied().unwrap_or(log.len());
    // Twice the number, so that a gate lies between two allocations.
    let born = steps.iter().map(|step| match *step {
        Step::Start(zone) => 2 * zone.begin(irregular).unwrap_or(number(zone.first)),
        Step::End(zone) => 2 * number(zone.last),
        Step::Regular(place) => 2 * number(place) + 1,
        Step::Irregular(place) => 2 * irregular.get(place).map_or(log.len(), |one| one.number) + 1,
    });
    let born: Vec<u32> = born.collect();
    let time = |upper: u32| if upper == OUTLIVES { OUTLIVES } else { rank(&born, 2 * upper) };
    let mut gates = gates(steps).into_iter();
    let logged = |(step, at): (&Step<'_>, u32)| match *step {
        Step::Start(zone) => {
            let upper = zone.of(irregular).map(|one| time(one.logged.upper)).filter(|&end| end != OUTLIVES).max();
            let least = gates.next().map_or(0, |(_, end)| (end + 1).min(born.len() as u32));
            Logged { bytes: zone.bytes, upper: upper.unwrap_or(least).max(least), inner: 0 }
        }
        Step::End(_) | Step::Irregular(_) => Logged { bytes: 0, upper: at + 1, inner: 0 },
        Step::Regular(place) => {
            let logged = log.allocations()[column[place as usize] as usize];
            Logged { upper: time(logged.upper), ..logged }
        }
    };
    Log::of(log.stream(), steps.iter().zip(0..).map(logged).collect())
}
