//! Entries to play: steps of recorded programs, and random ones.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::Path;

use fastrand::Rng;
use flate2::read::GzDecoder;

use super::Op;

/// The text of a compressed file.
///
/// # Panics
/// If it cannot be read.
pub fn unpacked(path: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).expect("packed text");
    text
}

/// A step of a shared trace, as an entry that repeats itself. Arrays of the step before that it frees become arrays of the entry
/// before, by their number in that step.
///
/// # Panics
/// If there is no such trace.
pub fn of_trace(name: &str, step: u32) -> Vec<Op> {
    let text = unpacked(format!("../examples/traces/{name}.csv.gz"));
    let mut before = HashMap::new();
    let mut now = HashMap::new();
    let mut ops = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |field: usize| fields[field].parse::<usize>().expect("a number");
        match (number(0) as u32, fields[1]) {
            (of, "a") if of + 1 == step => drop(before.insert(number(2), before.len() as u32)),
            (of, "a") if of == step => {
                let slot = now.len() as u32;
                now.insert(number(2), slot);
                ops.push(Op::Allocate { slot, bytes: number(3) });
            }
            (of, "f") if of == step => match (now.get(&number(2)), before.get(&number(2))) {
                (Some(&slot), _) => ops.push(Op::Drop(slot)),
                (_, Some(&slot)) => ops.push(Op::DropOld(slot)),
                _ => {}
            },
            _ => {}
        }
    }
    ops
}

/// An entry of buffers with their lifetimes.
///
/// # Panics
/// If there is no such file.
pub fn of_buffers(path: impl AsRef<Path>) -> Vec<Op> {
    let mut events = Vec::new();
    for line in unpacked(path).lines().skip(1) {
        let fields: Vec<u32> = line.split(',').map(|field| field.parse().expect("a number")).collect();
        let [slot, lower, upper, bytes] = fields[..] else { panic!("{line}") };
        events.push((lower, true, Op::Allocate { slot, bytes: bytes as usize }));
        events.push((upper, false, Op::Drop(slot)));
    }
    events.sort_by_key(|&(time, allocates, _)| (time, allocates));
    events.into_iter().map(|(_, _, op)| op).collect()
}

/// The properties of random entries.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// The fewest and the most allocations.
    pub allocations: (usize, usize),
    /// The fewest and the most bytes of an allocation. All powers of two in between are equally likely.
    pub bytes: (usize, usize),
    /// One of this many arrays is left to the next entry, and is smaller by this factor.
    pub escapes: (usize, usize),
}

impl Style {
    /// A size.
    pub fn size(&self, rng: &mut Rng) -> usize {
        let (least, most) = (self.bytes.0 as f64, self.bytes.1 as f64);
        (least * (most / least).powf(rng.f64())) as usize
    }

    /// An entry whose arrays have random sizes and lifetimes. Its slots begin at `first`.
    pub fn entry(&self, rng: &mut Rng, first: u32) -> Vec<Op> {
        let number = rng.usize(self.allocations.0..=self.allocations.1) as u32;
        let (mut ops, mut live, mut left) = (Vec::new(), Vec::new(), Vec::new());
        let alive = rng.usize(1..=8);
        for slot in first..first + number {
            let (escapes, bytes) = (rng.usize(0..self.escapes.0) == 0, self.size(rng));
            let bytes = if escapes { bytes.div_ceil(self.escapes.1) } else { bytes };
            ops.push(Op::Allocate { slot, bytes });
            if escapes {
                left.push(slot)
            } else {
                live.push(slot)
            }
            while live.len() > alive || (!live.is_empty() && rng.usize(0..3) == 0) {
                ops.push(Op::Drop(live.swap_remove(rng.usize(0..live.len()))));
            }
        }
        rng.shuffle(&mut live);
        ops.extend(live.into_iter().map(Op::Drop));
        for slot in left {
            ops.insert(rng.usize(0..=ops.len()), Op::DropOld(slot));
        }
        ops
    }
}

/// The entry with every size divided by a number between 1 and `factor`.
pub fn varied(rng: &mut Rng, entry: &[Op], factor: f64) -> Vec<Op> {
    let vary = |op: &Op| match *op {
        Op::Allocate { slot, bytes } => {
            let bytes = bytes as f64 / (1.0 + rng.f64() * (factor - 1.0));
            Op::Allocate { slot, bytes: bytes.ceil() as usize }
        }
        other => other,
    };
    entry.iter().map(vary).collect()
}

/// How many arrays an entry allocates and drops: those that a plan can serve.
pub fn plannable(entry: &[Op]) -> usize {
    let allocated: HashSet<u32> = entry.iter().filter_map(Op::allocated).collect();
    entry.iter().filter(|op| matches!(op, Op::Drop(slot) if allocated.contains(slot))).count()
}

/// The largest sum of bytes that are alive at once in an entry without arrays of earlier entries.
pub fn bound(entry: &[Op]) -> u64 {
    let mut sizes = HashMap::new();
    let (mut live, mut most) = (0, 0);
    for op in entry {
        match *op {
            Op::Allocate { slot, bytes } => {
                live += bytes as u64;
                sizes.insert(slot, bytes as u64);
                most = most.max(live);
            }
            Op::Drop(slot) => live -= sizes.remove(&slot).unwrap_or(0),
            _ => {}
        }
    }
    most
}
