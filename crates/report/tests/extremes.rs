//! Files with the form of a trace and extreme numbers. Each reader takes them or names the problem, and each writer writes them. None
//! panics, in a build that checks for overflow.
//!
//! `PROGRAMS=10000` tests so many files.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fmt::Write;
use std::num::NonZeroUsize;

use gpucache_report::replay::{History, Policy, dry_run, smallest_limit};
use gpucache_report::{Run, page, perfetto, prometheus, rmm, snapshot};

const HEADER: &str = "step,op,id,bytes,stream,time_ns,thread,scope,served,address,dtype,shape,site,device\n";

/// Numbers that follow from a seed (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number near an end of those there are, or near a power of two.
    fn extreme(&mut self) -> u64 {
        let power = 1 << self.below(64);
        match self.below(8) {
            0 => 0,
            1 => u64::MAX - self.below(600),
            2 => (1 << 63) - self.below(600),
            3 => power - 1,
            4 => power.saturating_add(self.below(600)),
            5 => self.below(1 << 30),
            6 => power,
            _ => self.next(),
        }
    }

    fn some(&mut self) -> u64 {
        if self.below(3) == 0 { self.extreme() } else { self.below(4) }
    }
}

/// A trace, whose allocations may be freed as a true one's are.
fn file(random: &mut Random) -> String {
    let (mut text, mut alive, mut step) = (HEADER.to_owned(), Vec::new(), 0);
    let is_true = random.below(2) == 0;
    for id in 1..=random.below(40) + 1 {
        step = if random.below(4) > 0 { step } else { random.extreme().max(step) };
        let (stream, time, thread) = (random.some() as u32, random.extreme(), random.some());
        let (device, address) = (random.some(), random.extreme());
        let scope = ["", "one", "two"][random.below(3) as usize];
        let (op, id, bytes) = match random.below(9) {
            0..=3 => {
                let bytes = random.extreme();
                alive.push((id, bytes));
                ("a", id, bytes)
            }
            4 | 5 if is_true && !alive.is_empty() => {
                let (id, bytes) = alive.swap_remove(random.below(alive.len() as u64) as usize);
                ("f", id, bytes)
            }
            4 | 5 if is_true => ("short", 0, random.extreme()),
            4 => ("f", random.some(), random.extreme()),
            5 => ("short", random.some(), random.extreme()),
            6 => ("enter", 0, random.some()),
            7 => ("leave", 0, 0),
            _ => (["reserve", "lost"][random.below(2) as usize], 0, random.extreme()),
        };
        let scope = if matches!(op, "enter" | "leave") && scope.is_empty() { "one" } else { scope };
        let shape = random.extreme();
        writeln!(text, "{step},{op},{id},{bytes},{stream},{time},{thread},{scope},plan,{address:#x},u8,{shape},f.rs:{shape}:1,{device}")
            .unwrap();
    }
    text
}

fn write_all(run: &Run) {
    page::write(run, "extreme", std::io::sink()).unwrap();
    perfetto::write(run, std::io::sink()).unwrap();
    prometheus::write(run, std::io::sink()).unwrap();
    rmm::write(run, std::io::sink()).unwrap();
    snapshot::write_json(run, std::io::sink()).unwrap();
    if let Err(error) = snapshot::write_pickle(run, std::io::sink()) {
        assert!(error.to_string().contains("is not an integer of 64 bits"), "{error}");
    }
}

fn replay(history: &History, random: &mut Random) {
    let passes = NonZeroUsize::MIN;
    let policy = Policy::ALL[random.below(4) as usize];
    for limit in [None, Some(random.extreme())] {
        dry_run(history, policy, limit, passes).unwrap();
    }
    if let Some(limit) = smallest_limit(history, policy, passes).unwrap() {
        assert!(limit >= history.peak_live_bytes());
    }
}

#[test]
fn files_of_extreme_numbers_panic_nowhere() {
    let path = std::env::temp_dir().join(format!("gpucache-extremes-{}.csv", std::process::id()));
    let programs = std::env::var("PROGRAMS").ok().and_then(|number| number.parse().ok()).unwrap_or(300);
    let (mut replayed, mut refused) = (0, 0);
    for seed in 1..=programs {
        let random = &mut Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        std::fs::write(&path, file(random)).unwrap();
        write_all(&Run::read(&path).unwrap());
        match History::read(&path) {
            Ok(history) => {
                replayed += 1;
                replay(&history, random);
            }
            Err(_) => refused += 1,
        }
    }
    std::fs::remove_file(&path).unwrap();
    println!("{replayed} were replayed, {refused} refused");
    assert!(replayed > 20 && refused > 20, "{replayed} were replayed, {refused} refused");
}

/// An array at the end of the addresses, far from the others.
#[test]
fn an_array_at_the_end_of_the_addresses_is_shown() {
    let path = std::env::temp_dir().join(format!("gpucache-extremes-end-{}.csv", std::process::id()));
    let lines = [
        "0,a,1,4096,1,0,0,,device,0x200000,f32,1024,,7",
        "0,a,2,1000,1,0,0,,device,0xfffffffffffff000,u8,1000,,7",
        "0,a,3,1000,1,0,0,,device,0xffffffffffffffff,u8,1000,,7",
    ];
    std::fs::write(&path, format!("{HEADER}{}\n", lines.join("\n"))).unwrap();
    let run = Run::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    write_all(&run);
    let mut shown = Vec::new();
    page::write(&run, "the end", &mut shown).unwrap();
    assert!(String::from_utf8(shown).unwrap().contains("0xfffffffffffff000"));
}

/// Costs by the lines of the file, and not by lines times devices or threads: a file that names another one in each line.
#[test]
fn each_line_may_be_of_another_device_and_thread() {
    let path = std::env::temp_dir().join(format!("gpucache-extremes-many-{}.csv", std::process::id()));
    let mut text = HEADER.to_owned();
    for n in 1..=20_000u64 {
        writeln!(text, "{n},enter,0,0,1,{n},{n},scope {n},,0x0,,,f.rs:1:1,0").unwrap();
        writeln!(text, "{n},a,{n},4096,1,{n},{n},scope {n},range,{:#x},u8,4096,f.rs:1:1,{n}", n * 4096).unwrap();
    }
    std::fs::write(&path, text).unwrap();
    let (run, begun) = (Run::read(&path).unwrap(), std::time::Instant::now());
    std::fs::remove_file(&path).unwrap();
    perfetto::write(&run, std::io::sink()).unwrap();
    prometheus::write(&run, std::io::sink()).unwrap();
    rmm::write(&run, std::io::sink()).unwrap();
    snapshot::write_json(&run, std::io::sink()).unwrap();
    // Some seconds; lines times devices took hours.
    assert!(begun.elapsed().as_secs() < 600, "{:?}", begun.elapsed());
}
