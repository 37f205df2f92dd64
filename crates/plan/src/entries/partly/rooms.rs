//! The choice of rooms: which gaps share one, how large it is, and how long it is in use.

use super::align::rank;
use super::chances;
use super::irregular::{Irregular, others, peak};
use crate::entries::cursor::Extents;
use crate::entries::envelope::{Envelope, Room};
use crate::entries::log::{Log, Logged, OUTLIVES};

/// Gaps share a room if at most so many regular allocations lie between two of them. Each of these is tried.
const DISTANCES: [u32; 5] = [0, 4, 16, 64, u32::MAX];
/// A gap has no room if more than this share of its bytes, 1/4, outlives the entry: the room would be in use then.
const OUTLIVING: u64 = 4;

/// Arrays beside the plan take this share, 1/8, more than their bytes: gaps of the range, and a page.
const GAPS: u64 = 8;

/// The gaps from the first to the last one, which share a room.
#[derive(Clone, Copy)]
struct Zone {
    first: u32,
    last: u32,
    bytes: u64,
}

/// A position of the envelope.
enum Step<'z> {
    Start(&'z Zone),
    End(&'z Zone),
    /// The regular allocation of this place.
    Regular(u32),
}

/// A choice of rooms, and the irregular allocations of each log.
pub(super) struct Arrangement {
    irregular: Vec<Vec<Irregular>>,
    zones: Vec<Zone>,
}

impl Arrangement {
    /// Several choices of rooms; the first one has none.
    pub(super) fn all(logs: &[&Log], columns: &[Vec<u32>]) -> impl Iterator<Item = Arrangement> {
        let irregular: Vec<Vec<Irregular>> =
            logs.iter().zip(columns).map(|(log, column)| others(log, column)).collect();
        let none = Arrangement { irregular: irregular.clone(), zones: Vec::new() };
        let shared = DISTANCES.into_iter().map(move |distance| Arrangement::of(irregular.clone(), distance));
        std::iter::once(none).chain(shared)
    }

    /// Rooms for gaps that have at most `distance` regular allocations between them.
    fn of(irregular: Vec<Vec<Irregular>>, distance: u32) -> Arrangement {
        let mut gaps: Vec<u32> = irregular.iter().flatten().map(|one| one.gap).collect();
        gaps.sort_unstable();
        let mut zones: Vec<Zone> = Vec::new();
        for gap in gaps {
            match zones.last_mut().filter(|zone| gap - zone.last <= distance) {
                Some(zone) => zone.last = gap,
                None => zones.push(Zone { first: gap, last: gap, bytes: 0 }),
            }
        }
        for zone in &mut zones {
            zone.bytes = irregular.iter().map(|irregular| zone.height(irregular)).max().unwrap_or(0);
        }
        zones.retain(|zone| zone.bytes > 0 && zone.is_left(&irregular));
        Arrangement { irregular, zones }
    }

    /// The envelope, and the bytes that it and the arrays beside it need.
    pub(super) fn envelope(self, logs: &[&Log], columns: &[Vec<u32>]) -> Option<(Envelope, u64)> {
        let parts = logs
            .iter()
            .zip(columns)
            .zip(&self.irregular)
            .map(|((log, column), irregular)| self.part(log, column, irregular));
        let parts: Vec<Log> = parts.collect();
        let [one, other, more @ ..] = parts.as_slice() else { return None };
        let mut envelope = Envelope::of(one, other)?;
        for part in more {
            envelope = envelope.absorb(part)?;
        }
        let beside = self.beside();
        let needed = envelope.bound().saturating_add(beside).saturating_add(beside / GAPS);
        let (rooms, row) = self.gates_of(logs, columns);
        Some((envelope.with_rooms(rooms, row), needed))
    }

    /// The rooms' gates in the envelope, and what it takes to know them.
    fn gates_of(&self, logs: &[&Log], columns: &[Vec<u32>]) -> (Box<[Room]>, u32) {
        let shares = chances::shares(logs, columns, &self.irregular);
        let most = |count: &dyn Fn(&Vec<Irregular>) -> usize| self.irregular.iter().map(count).max().unwrap_or(0);
        let room = |(place, zone): (usize, &Zone)| {
            let gates_before = 2 * place as u32;
            let (start, end) = (zone.first + gates_before, zone.last + gates_before + 1);
            let behind = shares.get(zone.last as usize..).unwrap_or_default();
            Room { start, end, leave: chances::leave(behind, most(&|irregular| zone.of(irregular).count())) }
        };
        (self.zones.iter().enumerate().map(room).collect(), chances::row(&shares, most(&Vec::len)))
    }

    /// The regular part of a log, and two gates for each room: its start, which has the room's bytes, and its end.
    fn part(&self, log: &Log, column: &[u32], irregular: &[Irregular]) -> Log {
        let steps = self.steps(column.len() as u32);
        let number = |place: u32| column.get(place as usize).copied().unwrap_or(log.len());
        // Twice the number, so that a gate lies between two allocations.
        let born = steps.iter().map(|step| match *step {
            Step::Start(zone) => 2 * zone.begin(irregular).unwrap_or(number(zone.first)),
            Step::End(zone) => 2 * number(zone.last),
            Step::Regular(place) => 2 * number(place) + 1,
        });
        let born: Vec<u32> = born.collect();
        let time = |upper: u32| if upper == OUTLIVES { OUTLIVES } else { rank(&born, 2 * upper) };
        let logged = |(at, step): (usize, &Step<'_>)| match *step {
            Step::Start(zone) => {
                let upper = zone.of(irregular).map(|one| time(one.logged.upper)).filter(|&end| end != OUTLIVES).max();
                let least = (at as u32 + zone.last - zone.first + 2).min(born.len() as u32);
                Logged { bytes: zone.bytes, upper: upper.unwrap_or(least).max(least) }
            }
            Step::End(_) => Logged { bytes: 0, upper: at as u32 + 1 },
            Step::Regular(place) => {
                let logged = log.allocations()[column[place as usize] as usize];
                Logged { upper: time(logged.upper), ..logged }
            }
        };
        Log::of(log.stream(), steps.iter().enumerate().map(logged).collect())
    }

    /// The positions of the envelope, if there are so many regular allocations. A room that lasts to the end of the entry has no end.
    fn steps(&self, regular: u32) -> Vec<Step<'_>> {
        let (mut steps, mut zones) = (Vec::new(), self.zones.iter().peekable());
        for place in 0..=regular {
            steps.extend(zones.peek().filter(|zone| zone.first == place).map(|zone| Step::Start(zone)));
            let ended = zones.next_if(|zone| zone.last == place);
            if place < regular {
                steps.extend(ended.map(Step::End));
                steps.push(Step::Regular(place));
            }
        }
        steps
    }

    /// The most bytes in use by irregular arrays that have no room.
    fn beside(&self) -> u64 {
        let is_beside = |one: &&Irregular| !self.zones.iter().any(|zone| zone.has(one));
        let beside = |irregular: &Vec<Irregular>| peak(irregular.iter().filter(is_beside));
        self.irregular.iter().map(beside).max().unwrap_or(0)
    }
}

impl Zone {
    fn has(&self, one: &Irregular) -> bool {
        (self.first..=self.last).contains(&one.gap)
    }

    fn of(self, irregular: &[Irregular]) -> impl Iterator<Item = &Irregular> {
        irregular.iter().filter(move |one| self.has(one))
    }

    /// The number of its first allocation.
    fn begin(self, irregular: &[Irregular]) -> Option<u32> {
        self.of(irregular).map(|one| one.number).next()
    }

    /// The bytes that its arrays take if a room serves them.
    fn height(&self, irregular: &[Irregular]) -> u64 {
        let mut extents = Extents::default();
        let mut ends: Vec<(u32, u64, u64)> = Vec::new();
        for one in self.of(irregular).filter(|one| one.logged.upper != OUTLIVES) {
            ends.retain(|&(upper, offset, bytes)| {
                let is_alive = upper > one.number;
                if !is_alive {
                    extents.free(offset, bytes);
                }
                is_alive
            });
            if let Some(offset) = extents.take(one.logged.bytes) {
                ends.push((one.logged.upper, offset, one.logged.bytes));
            }
        }
        extents.high()
    }

    /// Whether most of its bytes are dropped before their entry ends.
    fn is_left(&self, irregular: &[Vec<Irregular>]) -> bool {
        let (mut all, mut outliving) = (0u64, 0u64);
        for one in irregular.iter().flat_map(|irregular| self.of(irregular)) {
            all = all.saturating_add(one.logged.bytes);
            outliving = outliving.saturating_add(if one.logged.upper == OUTLIVES { one.logged.bytes } else { 0 });
        }
        outliving <= all / OUTLIVING
    }
}
