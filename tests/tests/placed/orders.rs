//! Random orders of uses that repeat, with arrays of many sizes that are born and die in each entry. Moves are made by a schedule, and
//! arrays come to computed addresses. Contents and limits hold all the same, also when entries deviate, when memory is returned in
//! between, and when another scope or thread moves the same arrays.
//!
//! `ORDERS` sets the number of random programs, 40 by default. A thousand take some four minutes.

use fastrand::Rng;
use gpucache::{Scope, device::Device, offload::Placed, prelude::*};
use gpucache_tests::{
    alike::{are_all, fill},
    process::number,
    turn,
};

const UNIT: usize = 16 << 10;
const ENTRIES: u32 = 14;

#[derive(Clone, Copy)]
enum Step {
    /// Reads an array that lives for ever, and perhaps writes another value.
    Use { array: usize, writes: bool },
    /// Makes an array of so many units.
    Born { units: usize },
    /// Reads one of those that this entry made.
    Again { born: usize },
    /// Drops the one that was made last.
    Dies,
}

struct Program {
    host: Host,
    lasting: Vec<(Placed<u32, Host>, u32)>,
    steps: Vec<Step>,
}

fn filled(host: &Host, units: usize, value: u32) -> Placed<u32, Host> {
    let mut array = Placed::zeros(host, units * UNIT / 4).unwrap();
    fill(&mut array.fetch_mut().unwrap(), value);
    array
}

fn check(array: &Placed<u32, Host>, value: u32) {
    let values = array.fetch().unwrap().to_vec().unwrap();
    assert!(are_all(&values, value), "{value}, found {:?}", &values[..4]);
}

fn random_step(rng: &mut Rng, arrays: usize) -> Step {
    match rng.u32(0..8) {
        0..=3 => Step::Use { array: rng.usize(0..arrays), writes: rng.u32(0..3) == 0 },
        4 | 5 => Step::Born { units: 1 << rng.u32(0..6) },
        6 => Step::Again { born: rng.usize(0..8) },
        _ => Step::Dies,
    }
}

impl Program {
    fn new(rng: &mut Rng) -> Program {
        let host = Host::new_stream().unwrap();
        let mut units = || 1usize << rng.u32(0..6);
        let sizes: Vec<usize> = (0..12).map(|_| units()).collect();
        let lasting: Vec<_> =
            sizes.iter().zip(1..).map(|(&units, value)| (filled(&host, units, value), value)).collect();
        let steps = (0..rng.usize(10..90)).map(|_| random_step(rng, lasting.len())).collect();
        Program { host, lasting, steps }
    }

    /// Makes the steps. `other` may be made in the place of one of them.
    fn entry(&mut self, scope: Scope<'_>, other: Option<(usize, Step)>) {
        let mut born: Vec<(Placed<u32, Host>, u32)> = Vec::new();
        let steps = self.steps.clone();
        scope.run(|| {
            for (place, &planned) in steps.iter().enumerate() {
                let step = other.filter(|(at, _)| *at == place).map_or(planned, |(_, step)| step);
                match step {
                    Step::Use { array, writes } => {
                        let (array, value) = &mut self.lasting[array];
                        check(array, *value);
                        if writes {
                            *value += 100;
                            fill(&mut array.fetch_mut().unwrap(), *value);
                        }
                    }
                    Step::Born { units } => born.push((filled(&self.host, units, place as u32 + 7), place as u32 + 7)),
                    Step::Again { born: number } => {
                        born.get(number).iter().for_each(|(array, value)| check(array, *value))
                    }
                    Step::Dies => drop(born.pop()),
                }
            }
        });
        born.iter().for_each(|(array, value)| check(array, *value));
    }
}

/// Runs a random program, first without a limit and then with one. Returns how many arrays were prefetched.
fn run(seed: u64) -> u64 {
    let mut rng = Rng::with_seed(seed);
    let mut program = Program::new(&mut rng);
    let [scope, beside] = ["orders", "beside_orders"].map(Scope::new);
    program.host.set_limit(u64::MAX).unwrap();
    (0..2).for_each(|_| program.entry(scope, None));
    let peak = program.host.memory().peak_bytes;
    program.host.trim();
    // Whatever is used at once fits a part of it.
    let limit = (peak / 100 * rng.u64(35..95)).max(40 * UNIT as u64);
    program.host.set_limit(limit).unwrap();
    program.host.reset_peaks();
    // More may be held when the limit is set.
    let most = limit.max(program.host.memory().bytes);
    for entry in 0..ENTRIES {
        match rng.u32(0..10) {
            0 if entry > 6 => {
                let other = (rng.usize(0..program.steps.len()), random_step(&mut rng, program.lasting.len()));
                program.entry(scope, Some(other));
            }
            1 if entry > 6 => _ = program.host.trim(),
            2 if entry > 6 => beside.run(|| program.lasting.iter().for_each(|(array, value)| check(array, *value))),
            _ => program.entry(scope, None),
        }
    }
    let held = program.host.memory().peak_bytes;
    assert!(held <= most, "seed {seed}: {held} of {most} bytes");
    let stats = program.host.stats().offload;
    program.host.set_limit(u64::MAX).unwrap();
    stats.prefetched
}

#[test]
fn contents_and_limits_hold_whatever_repeats() {
    let _turn = turn();
    let prefetched: u64 = (0..number("ORDERS").unwrap_or(40)).map(run).sum();
    assert!(prefetched > 0, "schedules were followed");
}
