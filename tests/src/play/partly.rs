//! Random programs that are regular in part. Each entry has the same regular allocations, and irregular ones between them.

pub mod bursts;
pub mod disturbed;

use std::collections::{BTreeMap, HashMap};

use fastrand::Rng;

use super::Op;
use bursts::{Bursts, Length, Life};

/// The fewest and the most bytes of an array, usually.
const BYTES: (f64, f64) = (256.0, (64 << 20) as f64);

/// A regular allocation.
#[derive(Clone, Copy, Debug)]
struct Regular {
    bytes: usize,
    /// Its array is dropped before the regular allocation of this number, or at the end.
    until: usize,
}

/// The places of bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gaps {
    /// One, as of the heads of a detector.
    One,
    /// Some.
    Several,
    /// Before each regular allocation there may be one.
    Fine,
}

/// When regular arrays are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lives {
    /// As those of a forward and a backward pass.
    Passes,
    /// After a few allocations.
    Short,
    /// Both.
    Both,
}

/// A program. Its entries differ only in their bursts, and at times in the factor of all regular sizes.
#[derive(Clone, Debug)]
pub struct Program {
    rng: Rng,
    regular: Vec<Regular>,
    /// The place of each burst, which is before the regular allocation of this number, and the mean of its length.
    gaps: Vec<(usize, f64)>,
    bursts: Bursts,
    /// Regular sizes are smaller by up to this share, in each entry.
    varies: f64,
    /// The most bytes of an array.
    most: f64,
    /// The irregular arrays that the last entry left.
    left: Vec<u32>,
    /// What the program is like.
    pub kind: String,
}

/// The operations of an entry. The slots of its allocations are numbers in their order.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The operations.
    pub ops: Vec<Op>,
    /// For each allocation, whether it is regular.
    pub is_regular: Vec<bool>,
}

impl Program {
    /// The program of this number, with at most so many regular allocations.
    pub fn random(seed: u64, most: usize) -> Program {
        Program::within(seed, most, BYTES)
    }

    /// As `random`, with arrays of between `bytes.0` and `bytes.1` bytes.
    pub fn within(seed: u64, most: usize, bytes: (f64, f64)) -> Program {
        let mut rng = Rng::with_seed(seed);
        let share = 0.3 + 0.6 * rng.f64();
        let number = (20.0 * (most as f64 / 20.0).powf(rng.f64())) as usize;
        let bounds = bounds(&mut rng, bytes);
        let lives = [Lives::Passes, Lives::Short, Lives::Both][rng.usize(..3)];
        let regular = regular(&mut rng, number, bounds, lives);
        let gaps = [Gaps::One, Gaps::Several, Gaps::Fine][rng.usize(..3)];
        let irregular = number as f64 * (1.0 - share) / share;
        let (name, gaps) = (gaps, gaps.draw(&mut rng, number, irregular));
        let sizes: Vec<usize> = regular.iter().map(|regular| regular.bytes).collect();
        // Half of the programs have boxes and indexes: many small arrays beside large regular ones.
        let bounds = if rng.bool() { (bytes.0, bytes.1.min(65_536.0)) } else { bounds };
        let bursts = Bursts::random(&mut rng, bounds, &sizes);
        let varies = [0.0, 0.0, 0.0, 0.3][rng.usize(..4)];
        let kind = format!("{number} {lives:?} {share:.2} {name:?} {bursts} varies {varies}");
        Program { rng, regular, gaps, bursts, varies, most: bytes.1, left: Vec::new(), kind }
    }

    /// The program if its allocations come in one order. Only sizes of irregular arrays vary, and their lives.
    pub fn in_one_order(mut self) -> Program {
        self.bursts.length = Length::Same;
        self
    }

    /// A short program with gaps at its beginning and its end, in which bursts are often empty.
    pub fn short(seed: u64, bytes: (f64, f64)) -> Program {
        let mut rng = Rng::with_seed(seed);
        let number = rng.usize(8..=40);
        let lives = [Lives::Passes, Lives::Short, Lives::Both][rng.usize(..3)];
        let regular = regular(&mut rng, number, bytes, lives);
        let mut places: Vec<usize> = (0..rng.usize(..=3)).map(|_| rng.usize(..=number)).collect();
        places.extend([0, number].into_iter().filter(|_| rng.bool()));
        places.sort_unstable();
        let mean = number as f64 * [0.1, 0.3, 0.8][rng.usize(..3)];
        let gaps = places.into_iter().map(|place| (place, mean)).collect();
        let sizes: Vec<usize> = regular.iter().map(|regular| regular.bytes).collect();
        let mut bursts = Bursts::random(&mut rng, bytes, &sizes);
        bursts.length = [Length::Seldom, Length::Seldom, Length::Uniform][rng.usize(..3)];
        bursts.escapes = [usize::MAX, 40, 8][rng.usize(..3)];
        let kind = format!("{number} {lives:?} {bursts}");
        Program { rng, regular, gaps, bursts, varies: 0.0, most: bytes.1, left: Vec::new(), kind }
    }

    /// The next entry.
    pub fn entry(&mut self) -> Entry {
        let factor = 1.0 - self.varies * self.rng.f64();
        let mut entry = Entry::default();
        let mut due: HashMap<usize, Vec<u32>> = HashMap::new();
        let mut gaps = self.gaps.clone().into_iter().peekable();
        let mut left = Vec::new();
        for place in 0..=self.regular.len() {
            let drops = due.remove(&place).unwrap_or_default();
            entry.ops.extend(drops.into_iter().map(Op::Drop));
            while let Some((_, mean)) = gaps.next_if(|gap| gap.0 == place) {
                let burst = self.bursts.draw(&mut self.rng, mean);
                self.write(&mut entry, burst, place, &mut due, &mut left);
            }
            if let Some(Regular { bytes, until }) = self.regular.get(place) {
                let slot = entry.allocate((*bytes as f64 * factor) as usize, true);
                due.entry(*until).or_default().push(slot);
            }
        }
        let last = due.into_iter().collect::<BTreeMap<_, _>>();
        entry.ops.extend(last.into_values().flatten().map(Op::Drop));
        self.drop_left(&mut entry, left);
        entry
    }

    /// Writes a burst before the regular allocation `place`.
    fn write(
        &mut self,
        entry: &mut Entry,
        burst: Vec<(usize, Life)>,
        place: usize,
        due: &mut HashMap<usize, Vec<u32>>,
        left: &mut Vec<u32>,
    ) {
        let end = self.regular.len() + 1;
        let (mut stack, mut mixed) = (Vec::new(), Vec::new());
        for (bytes, life) in burst {
            let slot = entry.allocate(bytes.min(self.most as usize), false);
            let until = match life {
                Life::Stack | Life::Mixed => {
                    let own = if life == Life::Stack { &mut stack } else { &mut mixed };
                    own.push(slot);
                    self.drop_some(entry, &mut stack, &mut mixed);
                    continue;
                }
                Life::Next => {
                    left.push(slot);
                    continue;
                }
                Life::Soon => place + self.rng.usize(1..=8),
                Life::Mirrored => (end - place).max(place + 1),
                Life::End => end,
            };
            // Arrays that are due at the same place are dropped in any order.
            let drops = due.entry(until.min(end)).or_default();
            drops.insert(self.rng.usize(..=drops.len()), slot);
        }
        entry.ops.extend(stack.into_iter().rev().chain(mixed).map(Op::Drop));
    }

    fn drop_some(&mut self, entry: &mut Entry, stack: &mut Vec<u32>, mixed: &mut Vec<u32>) {
        while !stack.is_empty() && (stack.len() > 12 || self.rng.u8(..3) == 0) {
            entry.ops.extend(stack.pop().map(Op::Drop));
        }
        while !mixed.is_empty() && (mixed.len() > 12 || self.rng.u8(..3) == 0) {
            entry.ops.push(Op::Drop(mixed.swap_remove(self.rng.usize(..mixed.len()))));
        }
    }

    /// Drops the arrays that the last entry left at any place of this one.
    fn drop_left(&mut self, entry: &mut Entry, left: Vec<u32>) {
        for slot in std::mem::replace(&mut self.left, left) {
            entry.ops.insert(self.rng.usize(..=entry.ops.len()), Op::DropOld(slot));
        }
    }
}

impl Entry {
    fn allocate(&mut self, bytes: usize, is_regular: bool) -> u32 {
        let slot = self.is_regular.len() as u32;
        self.is_regular.push(is_regular);
        self.ops.push(Op::Allocate { slot, bytes: bytes.max(1) });
        slot
    }

    /// How many of its allocations are regular.
    pub fn regular(&self) -> usize {
        self.is_regular.iter().filter(|is_regular| **is_regular).count()
    }
}

/// The bounds of the sizes of a program.
fn bounds(rng: &mut Rng, (least, most): (f64, f64)) -> (f64, f64) {
    match rng.u8(..4) {
        0 => (least, most),
        1 => (least, most / 256.0),
        2 => (most / 64.0, most),
        _ => {
            let middle = least * (most / least).powf(rng.f64());
            ((middle / 4.0).max(least), (middle * 4.0).min(most))
        }
    }
}

impl Gaps {
    /// The places of the bursts, and their means, which are `irregular` together.
    fn draw(self, rng: &mut Rng, number: usize, irregular: f64) -> Vec<(usize, f64)> {
        let mut places: Vec<usize> = match self {
            Gaps::One => vec![number * rng.usize(30..=70) / 100],
            Gaps::Several => (0..rng.usize(2..=12)).map(|_| rng.usize(..=number)).collect(),
            Gaps::Fine => {
                let share = 0.2 + 0.8 * rng.f64();
                (0..=number).filter(|place| *place == 0 || rng.f64() < share).collect()
            }
        };
        places.sort_unstable();
        places.dedup();
        let mean = irregular / places.len() as f64;
        places.into_iter().map(|place| (place, mean)).collect()
    }
}

fn regular(rng: &mut Rng, number: usize, (least, most): (f64, f64), lives: Lives) -> Vec<Regular> {
    let kinds: Vec<usize> =
        (0..rng.usize(1..=40)).map(|_| (least * (most / least).powf(rng.f64())).max(1.0) as usize).collect();
    let one = |place: usize| {
        let bytes = kinds[rng.usize(..kinds.len())];
        let is_kept = match lives {
            Lives::Passes => rng.u8(..4) > 0,
            Lives::Short => false,
            Lives::Both => rng.u8(..4) == 0,
        };
        let until = match is_kept && place < number / 2 {
            true => number - place,
            false => (place + rng.usize(1..=8)).min(number),
        };
        Regular { bytes, until }
    };
    (0..number).map(one).collect()
}
