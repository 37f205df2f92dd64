//! Programs whose entries are all alike, drawn at random and on a grid. Each array of an entry has a size and a fate, which are the
//! same in every entry. Once warm, such a program must not touch the heap at all.
//!
//! A program counts as cold if it allocates on the heap in each of [`WINDOWS`] stretches of entries. In one stretch alone it may
//! allocate, since the range may still grow, or get more free stretches than ever before.

use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fastrand::Rng;
use gpucache::device::Virtual;
use gpucache::{Array, Recycle, Scope, invalidate};
use gpucache_tests::counting::allocations;
use gpucache_tests::process::number;
use gpucache_tests::seeds;

use super::programs::Elsewhere;

/// Entries until a program is warm. An order is learned within tens of entries, and plans are tried again within hundreds, so some
/// thousand entries are enough.
const WARMING: usize = 2_000;
const WINDOWS: usize = 4;
/// Longer than the turns of a ring, and longer than the queues below.
const WINDOW: usize = 150;
/// Random programs that allocated in each entry. A scope and a scope within it took memory from each other, so each entry made a
/// ring or an arena anew, or trimmed the range.
const FOUND: [u64; 13] = [708, 1452, 4409, 4975, 5163, 5219, 5955, 6092, 7465, 7864, 9130, 9245, 10142];
/// The number of random programs in the gate, beside these.
const PROGRAMS: u64 = 150;

/// When an array is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// When the next array of this fate is there.
    Next,
    /// At the end of its entry.
    End,
    /// When the next entry's array in the same place is there.
    Replaced,
    /// Before the next entry requests the array in the same place.
    Taken,
    /// This many entries later.
    Queued(usize),
    /// Between its entry and the next one.
    Between,
    /// Between two entries, by another thread.
    Elsewhere,
}

/// One array of each entry.
#[derive(Clone, Copy, Debug)]
struct Kind {
    bytes: usize,
    fate: Fate,
}

/// The actions of all entries.
struct Entries {
    arrays: Vec<Kind>,
    recycle: Recycle,
    /// The arrays, from the first number up to the second, that an inner scope serves. It is the same scope again if the flag is
    /// set.
    inner: Option<(usize, usize, bool)>,
}

type Slot = Option<Array<u8, Virtual>>;

/// The state of a running program. The arrays that are alive have slots, so that the program itself does not touch the heap.
struct Alive {
    device: Virtual,
    next: Slot,
    /// By place: a ring of the arrays of the last entries.
    kept: Vec<Vec<Slot>>,
    thread: Option<Elsewhere<u8, Virtual>>,
}

const LONGEST_QUEUE: usize = 4;

impl Entries {
    fn play(&self, name: &str, inner: &str, alive: &mut Alive, number: usize) {
        let outer = Scope::new(name).recycle(self.recycle).enter();
        let mut within = None;
        for (place, kind) in self.arrays.iter().enumerate() {
            match self.inner {
                Some((begin, _, is_same)) if begin == place => {
                    within = Some(Scope::new(if is_same { name } else { inner }).recycle(self.recycle).enter());
                }
                Some((_, end, _)) if end == place => drop(within.take()),
                _ => {}
            }
            alive.allocate(place, *kind, number);
        }
        drop(within);
        self.drop_those(Fate::End, alive, number, drop);
        alive.next = None;
        drop(outer);
        self.drop_those(Fate::Between, alive, number, drop);
        let Some(thread) = alive.thread.take() else { return };
        self.drop_those(Fate::Elsewhere, alive, number, |slot| slot.into_iter().for_each(|array| thread.drop(array)));
        alive.thread = Some(thread);
    }

    fn drop_those(&self, fate: Fate, alive: &mut Alive, number: usize, mut act: impl FnMut(Slot)) {
        for (place, _) in self.arrays.iter().enumerate().filter(|(_, kind)| kind.fate == fate) {
            act(alive.kept[place][number % LONGEST_QUEUE].take());
        }
    }

    /// Returns a message if the program still allocates on the heap once it is warm.
    fn cold(&self) -> Option<String> {
        // Each program gets a name of its own. If a name served several devices, its invalidation would trim the devices of all
        // tests.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let device = Virtual::unchecked(1 << 46);
        let (name, inner) = (format!("alike {number}"), format!("within alike {number}"));
        let is_elsewhere = self.arrays.iter().any(|kind| kind.fate == Fate::Elsewhere);
        let mut alive = Alive {
            device: device.clone(),
            next: None,
            kept: self.arrays.iter().map(|_| (0..LONGEST_QUEUE).map(|_| None).collect()).collect(),
            thread: is_elsewhere.then(Elsewhere::new),
        };
        // Another thread takes tens of microseconds to answer, so there are fewer entries then.
        let warming = if is_elsewhere { WARMING / 4 } else { WARMING };
        (0..warming).for_each(|number| self.play(&name, &inner, &mut alive, number));
        let mut made = [0; WINDOWS];
        for (window, made) in made.iter_mut().enumerate() {
            let before = allocations();
            let first = warming + window * WINDOW;
            (first..first + WINDOW).for_each(|number| self.play(&name, &inner, &mut alive, number));
            *made = allocations() - before;
            if *made == 0 {
                break;
            }
        }
        drop(alive);
        let plans = gpucache::stats(&name);
        [name, inner].iter().for_each(|name| _ = invalidate(name));
        let is_cold = made.iter().all(|&made| made > 0);
        is_cold.then(|| format!("{made:?} allocations in {WINDOW} entries each: {self}; {plans:?}"))
    }
}

impl Display for Entries {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, the scope within {:?}:", self.recycle, self.inner)?;
        self.arrays.iter().try_for_each(|Kind { bytes, fate }| write!(f, " {bytes} {fate:?},"))
    }
}

impl Alive {
    fn allocate(&mut self, place: usize, Kind { bytes, fate }: Kind, number: usize) {
        let slots = &mut self.kept[place];
        let (now, before) = (number % LONGEST_QUEUE, (number + LONGEST_QUEUE - 1) % LONGEST_QUEUE);
        if fate == Fate::Taken {
            slots[before] = None;
        }
        // SAFETY: the array is never read.
        #[allow(unsafe_code)]
        let new = unsafe { Array::uninit(&self.device, bytes).unwrap() };
        match fate {
            Fate::Next => self.next = Some(new),
            Fate::Replaced => {
                slots[now] = Some(new);
                slots[before] = None;
            }
            Fate::Queued(entries) => {
                slots[now] = Some(new);
                slots[(number + LONGEST_QUEUE - entries) % LONGEST_QUEUE] = None;
            }
            Fate::End | Fate::Taken | Fate::Between | Fate::Elsewhere => slots[now] = Some(new),
        }
    }
}

/// Arrays of `sizes` sizes in turn. `replaced` of them, spread over the entry, replace those of the entry before.
fn on_the_grid(replaced: usize, sizes: usize, recycle: Recycle, unit: usize) -> Entries {
    let fate = |place: usize| if place * 13 % 32 < replaced { Fate::Replaced } else { Fate::Next };
    let arrays = (0..32).map(|place| Kind { bytes: (1 + place % sizes) * unit, fate: fate(place) }).collect();
    Entries { arrays, recycle, inner: None }
}

fn at_random(rng: &mut Rng) -> Entries {
    let count = rng.usize(1..=40);
    let (sizes, unit) = (rng.usize(1..=20), [64, 4 << 10, 100 << 10, 3 << 20][rng.usize(0..4)]);
    let bytes: Vec<usize> = match rng.bool() {
        true => (0..sizes).map(|size| (1 + size) * unit).collect(),
        false => (0..sizes).map(|_| (unit as f64 * 300f64.powf(rng.f64())) as usize).collect(),
    };
    let has_thread = rng.usize(0..16) == 0;
    let fates = [
        Fate::Next,
        Fate::End,
        Fate::Replaced,
        Fate::Taken,
        Fate::Queued(rng.usize(1..LONGEST_QUEUE)),
        Fate::Between,
        if has_thread { Fate::Elsewhere } else { Fate::Next },
    ];
    // A program has a few fates, and uses one of them more often than the others.
    let some: Vec<Fate> = (0..rng.usize(1..=4)).map(|_| fates[rng.usize(0..fates.len())]).collect();
    let fate = |rng: &mut Rng| some[rng.usize(0..some.len()).min(rng.usize(0..some.len()))];
    let is_in_turn = rng.bool();
    let size = |rng: &mut Rng, place: usize| if is_in_turn { place % sizes } else { rng.usize(0..sizes) };
    let arrays = (0..count).map(|place| Kind { bytes: bytes[size(rng, place)], fate: fate(rng) }).collect();
    let recycle = [Recycle::Auto, Recycle::Auto, Recycle::Range, Recycle::Keyed][rng.usize(0..4)];
    let begin = rng.usize(0..count);
    let inner = (rng.usize(0..3) == 0).then(|| (begin, rng.usize(begin + 1..=count), rng.bool()));
    Entries { arrays, recycle, inner }
}

#[test]
fn any_number_of_arrays_that_replace_those_of_the_entry_before() {
    let mut found = Vec::new();
    // All of this would take four times as long. With `PROGRAMS`, each number of arrays is replaced, else each second one.
    let step = if number("PROGRAMS").is_some() { 1 } else { 2 };
    for sizes in (1..=8).chain((11..=20).step_by(3)) {
        for replaced in (0..=32).skip(sizes % step).step_by(step) {
            let unit = if (replaced / step) % 2 == 0 { 100 << 10 } else { 512 };
            found.extend(on_the_grid(replaced, sizes, Recycle::Auto, unit).cold());
        }
    }
    for recycle in [Recycle::Range, Recycle::Keyed] {
        for (sizes, replaced) in
            [1, 8, 20].into_iter().flat_map(|sizes| (0..=32).step_by(4).map(move |some| (sizes, some)))
        {
            found.extend(on_the_grid(replaced, sizes, recycle, 100 << 10).cold());
        }
    }
    assert!(found.is_empty(), "{} programs are cold:\n{}", found.len(), found.join("\n"));
}

#[test]
fn programs_at_random_whose_entries_are_alike() {
    let mut found = Vec::new();
    seeds::each_and(&FOUND, PROGRAMS, 1, |seed| {
        let cold = at_random(&mut Rng::with_seed(seed)).cold();
        found.extend(cold.map(|cold| format!("SEED={seed}: {cold}")));
    });
    assert!(found.is_empty(), "{} programs are cold:\n{}", found.len(), found.join("\n"));
}
