//! No two live arrays share an address, whatever a program requests and drops, in order or not. A plan serves every allocation of
//! an entry that follows it.

mod branch;
mod rooms;

use proptest::prelude::*;

use super::*;
use crate::entries::envelope::Envelope;
use crate::entries::{Answer, Deviation, Log};
use crate::layout::layout;

/// An allocation of an entry: its bytes, and after how many further allocations it is dropped.
type Life = (u64, usize);

fn entry() -> impl Strategy<Value = Vec<Life>> {
    prop::collection::vec((1..2000u64, 1..12usize), 1..40)
}

/// How an entry differs from the planned one, at one position of the plan.
#[derive(Clone, Debug)]
enum Change {
    Omit,
    Insert(Life),
    Resize(u64),
    Swap,
    Live(usize),
    Cut,
    /// The array is never dropped.
    Keep,
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, Change)>> {
    let change = prop_oneof![
        Just(Change::Omit),
        (1..3000u64, 1..20usize).prop_map(Change::Insert),
        (1..4000u64).prop_map(Change::Resize),
        Just(Change::Swap),
        (1..60usize).prop_map(Change::Live),
        Just(Change::Cut),
        Just(Change::Keep),
    ];
    prop::collection::vec((any::<prop::sample::Index>(), change), 0..4)
}

fn changed(entry: &[Life], changes: &[(prop::sample::Index, Change)]) -> Vec<Life> {
    let mut entry = entry.to_vec();
    for (place, change) in changes {
        if entry.is_empty() {
            break;
        }
        let (place, last) = (place.index(entry.len()), entry.len() - 1);
        match change {
            Change::Omit => drop(entry.remove(place)),
            Change::Insert(life) => entry.insert(place, *life),
            Change::Resize(bytes) => entry[place].0 = *bytes,
            Change::Swap => entry.swap(place, last.min(place + 1)),
            Change::Live(length) => entry[place].1 = *length,
            Change::Cut => entry.truncate(place),
            Change::Keep => entry[place].1 = usize::MAX,
        }
    }
    entry
}

fn log(entry: &[Life]) -> Log {
    let mut log = Log::default();
    for now in 0..=entry.len() {
        let ends =
            |&(number, life): &(usize, &Life)| number + life.1 == now || now == entry.len() && number + life.1 > now;
        entry.iter().enumerate().filter(ends).for_each(|(number, _)| log.dropped(number as u32));
        entry.get(now).map(|life| log.allocated(0, life.0));
    }
    log
}

/// The second of two entries of this order. Each array lives as long as its `Life` says, across the end of its entry too.
fn log_across_the_seam(entry: &[Life]) -> Log {
    let (mut log, count) = (Log::default(), entry.len());
    log.begin_entry(Some(count as u32));
    let ends = |now: usize| (0..now).filter(move |&born| born + entry[born % count].1 == now);
    for now in count..=2 * count {
        for born in ends(now) {
            match born.checked_sub(count) {
                Some(number) => log.dropped(number as u32),
                None => log.dropped_of_before(born as u32),
            }
        }
        if now < 2 * count {
            log.allocated(0, entry[now - count].0);
        }
    }
    log
}

/// A live array: its position, its addresses, and the allocation at which it is dropped.
struct Alive {
    position: u32,
    place: std::ops::Range<u64>,
    bytes: u64,
    end: usize,
}

struct Program {
    envelope: Envelope,
    cursor: Cursor,
    alive: Vec<Alive>,
    now: usize,
}

impl Program {
    fn new(entry: &[Life]) -> Program {
        Program::of(&log(entry))
    }

    fn of(log: &Log) -> Program {
        Program::with(Envelope::of(log, log).unwrap())
    }

    fn with(envelope: Envelope) -> Program {
        let buffers = envelope.buffers();
        let cursor = Cursor::new(&envelope, &buffers, &layout(&buffers).unwrap());
        Program { envelope, cursor, alive: Vec::new(), now: 0 }
    }

    /// Runs an entry, and returns how many of its allocations were served. Before each, the arrays that are due are dropped.
    fn run(&mut self, entry: &[Life]) -> usize {
        self.cursor.begin(!self.alive.is_empty());
        let before = self.cursor.served();
        for &(bytes, length) in entry {
            self.drop_until(self.now);
            let served =
                self.cursor.serve(bytes).or_else(|| match self.cursor.serve_off_order(bytes, &self.envelope) {
                    Answer::Served(served, deviation) => {
                        self.note(deviation, bytes);
                        Some(served)
                    }
                    Answer::Beside(deviation) => {
                        self.note(deviation, bytes);
                        None
                    }
                    Answer::Carried(_) | Answer::Irregular(_) => None,
                });
            if let Some(Served { position, offset, .. }) = served {
                let place = offset..offset + bytes;
                let clash =
                    self.alive.iter().find(|other| other.place.start < place.end && place.start < other.place.end);
                assert!(clash.is_none(), "position {position} lies where {} is alive", clash.unwrap().position);
                self.alive.push(Alive { position, place, bytes, end: self.now.saturating_add(length) });
            }
            self.now += 1;
        }
        (self.cursor.served() - before) as usize
    }

    /// Remembers sizes for a later layout, as a scope does.
    fn note(&mut self, deviation: Option<Deviation>, bytes: u64) {
        match deviation {
            Some(Deviation::Larger { position }) => {
                self.envelope.widen(position, bytes);
            }
            Some(Deviation::Resized { position, bytes }) => {
                self.envelope.widen(position, bytes);
            }
            _ => {}
        }
    }

    fn drop_until(&mut self, now: usize) {
        let (due, alive) = std::mem::take(&mut self.alive).into_iter().partition(|alive| alive.end <= now);
        self.alive = alive;
        let due: Vec<Alive> = due;
        due.into_iter().for_each(|array| self.cursor.take_back(array.position));
        assert_eq!(self.cursor.live(), self.alive.len() as u64);
    }

    /// Ends an entry that drops all its arrays.
    fn leave(&mut self) {
        self.drop_until(usize::MAX - 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn an_entry_that_goes_by_its_plan_is_served_whole(entry in entry()) {
        let mut program = Program::new(&entry);
        for _ in 0..3 {
            prop_assert_eq!(program.run(&entry), entry.len());
            program.leave();
        }
    }

    #[test]
    fn what_ends_within_its_entry_has_a_place(entry in entry()) {
        let mut program = Program::of(&log_across_the_seam(&entry));
        let placed = (0..).zip(&entry).filter(|(place, life)| place + life.1 <= entry.len()).count();
        for _ in 0..4 {
            prop_assert_eq!(program.run(&entry), placed);
        }
    }

    #[test]
    fn nothing_alive_is_served_whatever_deviates_across_the_seam(
        entry in entry(),
        entries in prop::collection::vec((changes(), any::<bool>()), 1..8),
    ) {
        let mut program = Program::of(&log_across_the_seam(&entry));
        for (changes, leaves) in &entries {
            program.run(&changed(&entry, changes));
            if *leaves {
                program.leave();
            }
        }
    }

    #[test]
    fn nothing_alive_is_served_whatever_deviates(
        entry in entry(),
        entries in prop::collection::vec((changes(), any::<bool>()), 1..8),
    ) {
        let mut program = Program::new(&entry);
        for (changes, leaves) in &entries {
            program.run(&changed(&entry, changes));
            if *leaves {
                program.leave();
            }
        }
        let live: Vec<_> = program.cursor.evict().iter().map(|live| (live.offset, live.position, live.bytes.next_multiple_of(ALIGN))).collect();
        let own = |array: &Alive| (array.place.start, array.position, array.bytes.next_multiple_of(ALIGN));
        let mut alive: Vec<_> = program.alive.iter().map(own).collect();
        alive.sort_unstable();
        prop_assert_eq!(live, alive, "each leaves with its own bytes, and not with those of its position");
        program.alive.clear();
        prop_assert_eq!(program.run(&entry), entry.len(), "once nothing is alive in it any more");
    }
}

#[test]
fn one_deviation_is_all_that_goes_beside() {
    let entry: Vec<Life> = (0..100).map(|number| (256 * (1 + number % 7) + number, 3)).collect();
    let beside = |changes: &[(usize, Change)]| {
        let mut program = Program::new(&entry);
        let mut other = entry.clone();
        for (place, change) in changes {
            match change {
                Change::Omit => drop(other.remove(*place)),
                Change::Insert(life) => other.insert(*place, *life),
                Change::Resize(bytes) => other[*place].0 = *bytes,
                _ => other.swap(*place, place + 1),
            }
        }
        other.len() - program.run(&other)
    };
    for place in 0..99 {
        // A missing or extra allocation makes other arrays live an allocation longer or shorter than planned.
        assert!(beside(&[(place, Change::Omit)]) <= 2, "omitted at {place}");
        assert!(beside(&[(place, Change::Swap)]) <= 2, "swapped at {place}");
        assert!(beside(&[(place, Change::Insert((1 << 20, 1)))]) <= 2, "inserted at {place}");
        assert!(beside(&[(place, Change::Resize(4000))]) <= 1, "larger at {place}");
        assert!(beside(&[(place, Change::Resize(1))]) <= 1, "smaller at {place}");
    }
}

/// The bytes of each position vary. Those of a layer's second array reach beyond those of the first one.
#[test]
fn a_size_a_little_beyond_all_before_keeps_its_position() {
    let layers = |first: u64, second: u64| -> Vec<Life> { (0..10).flat_map(|_| [(first, 1), (second, 1)]).collect() };
    let [short, long] = [(100_000, 120_000), (200_000, 240_000)].map(|(first, second)| log(&layers(first, second)));
    let mut program = Program::with(Envelope::of(&long, &short).unwrap());
    assert_eq!(program.run(&layers(202_000, 240_000)), 10);
    let sizes: Vec<_> = (0..20).map(|position| program.envelope.sizes_at(position).unwrap()).collect();
    assert_eq!(
        sizes,
        [(100_000, 202_000), (120_000, 240_000)].repeat(10),
        "only the first array of each layer was larger"
    );
}
