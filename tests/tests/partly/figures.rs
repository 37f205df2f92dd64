//! Programs that are regular in part: what a plan serves of them, and the memory that is reserved for them.
//!
//! `cargo test --release -p gpucache-tests --test partly -- --ignored --nocapture` measures `PROGRAMS` random programs, 100 by default,
//! from the number `FIRST` on. `SEED=n` measures only the n-th. `ENTRIES` sets the number of entries. All figures are those of the
//! second half of the entries.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gpucache::Recycle;
use gpucache_report::replay::{History, Policy, dry_run};
use gpucache_tests::detector::Training;
use gpucache_tests::partly::{Figures, Run};
use gpucache_tests::play::partly::Program;
use gpucache_tests::process::number;
use gpucache_tests::turn;

/// A program with so many bytes alive is large. In a small one, the last page that is mapped is a large part.
const LARGE: u64 = 128 << 20;
/// The least mean share of the regular part that is planned, and the most memory compared with the range, of the programs of the gate.
const PLANNED: f64 = 0.75;
const RESERVED: f64 = 1.02;
/// The most regular allocations of an entry.
const MOST: usize = 2000;

/// A program under the default policy, and under `recycle = "range"`.
struct Row {
    seed: u64,
    kind: String,
    live: u64,
    auto: Figures,
    range: Figures,
}

impl Row {
    fn measure(seed: u64, entries: usize) -> Row {
        Row::of(seed, &mut Program::random(seed, MOST), entries)
    }

    fn of(seed: u64, program: &mut Program, entries: usize) -> Row {
        let run = Run::of(program, entries);
        let [auto, range] = [Recycle::Auto, Recycle::Range].map(|recycle| run.measure(recycle));
        Row { seed, kind: program.kind.clone(), live: run.live, auto, range }
    }

    fn of_live(&self, figures: &Figures) -> f64 {
        figures.reserved as f64 / self.live.max(1) as f64
    }

    /// Planned allocations ÷ regular allocations, and regular ones that a plan served ÷ regular ones.
    fn planned(&self) -> [f64; 2] {
        [self.auto.planned, self.auto.regular_planned].map(|planned| planned as f64 / self.auto.regular as f64)
    }

    fn print(&self) {
        let (auto, range) = (&self.auto, &self.range);
        let share = |part: u64| part as f64 / auto.allocations as f64;
        let [of_regular, regular] = self.planned();
        println!(
            "{:5} | {:.3} {:.3} {of_regular:.3} {regular:.3} | {:.3} {:.3} {:.3} | {:.3} {:.3} | {:6.1} {:6.1} | {:5} {:5} {:5.1} ms | {}",
            self.seed,
            share(auto.planned),
            share(auto.regular),
            self.of_live(auto),
            self.of_live(range),
            auto.reserved as f64 / range.reserved as f64,
            auto.reserved_ever as f64 / self.live as f64,
            range.reserved_ever as f64 / self.live as f64,
            auto.nanoseconds,
            range.nanoseconds,
            auto.calls,
            range.calls,
            auto.planning.as_secs_f64() * 1e3,
            self.kind
        );
    }
}

/// The mean, the worst and its seed, and how many miss the mark.
fn summary(name: &str, rows: &[&Row], of: impl Fn(&Row) -> f64, mark: Option<f64>, is_least: bool) {
    let values: Vec<(f64, u64)> = rows.iter().map(|row| (of(row), row.seed)).collect();
    let mean = values.iter().map(|value| value.0).sum::<f64>() / values.len() as f64;
    let ordered = |one: &&(f64, u64), other: &&(f64, u64)| one.0.total_cmp(&other.0);
    let worst = if is_least { values.iter().min_by(ordered) } else { values.iter().max_by(ordered) };
    let misses = |value: f64, mark: f64| if is_least { value < mark } else { value > mark };
    print!("  {name}: mean {mean:.3}, worst {:.3} (SEED={})", worst.unwrap().0, worst.unwrap().1);
    match mark {
        Some(mark) => println!(
            "; {} of {} miss {mark}",
            values.iter().filter(|value| misses(value.0, mark)).count(),
            values.len()
        ),
        None => println!(),
    }
}

#[test]
#[ignore = "measures"]
fn measure() {
    let _turn = turn();
    let entries = number("ENTRIES").unwrap_or(40) as usize;
    let first = number("SEED").or(number("FIRST")).unwrap_or(0);
    let programs = if number("SEED").is_some() { 1 } else { number("PROGRAMS").unwrap_or(100) };
    println!(
        " seed | planned regular planned÷regular regular-planned÷regular | reserved÷live range÷live reserved÷range | whole run÷live, range | ns, range | calls, range, planning | kind"
    );
    let rows: Vec<Row> = (first..first + programs)
        .map(|seed| {
            let row = Row::measure(seed, entries);
            row.print();
            row
        })
        .collect();
    print_summary(&rows.iter().collect::<Vec<_>>(), "all programs");
    let is_large = |row: &&Row| row.live >= LARGE;
    print_summary(&rows.iter().filter(is_large).collect::<Vec<_>>(), "large programs");
}

fn print_summary(rows: &[&Row], name: &str) {
    if rows.is_empty() {
        return;
    }
    println!("{name}: {}", rows.len());
    summary("planned ÷ regular", rows, |row| row.planned()[0], Some(0.9), true);
    summary("regular planned ÷ regular", rows, |row| row.planned()[1], Some(0.9), true);
    summary("reserved ÷ range", rows, |row| row.auto.reserved as f64 / row.range.reserved as f64, Some(1.0), false);
    summary("reserved ÷ live", rows, |row| row.of_live(&row.auto), Some(1.06), false);
    summary("range ÷ live", rows, |row| row.of_live(&row.range), Some(1.06), false);
    summary(
        "reserved ÷ range, whole run",
        rows,
        |row| row.auto.reserved_ever as f64 / row.range.reserved_ever as f64,
        Some(1.0),
        false,
    );
    summary("ns", rows, |row| row.auto.nanoseconds, None, false);
    summary("ns of the range", rows, |row| row.range.nanoseconds, None, false);
    summary("calls", rows, |row| row.auto.calls as f64, None, false);
    summary("calls of the range", rows, |row| row.range.calls as f64, None, false);
}

/// At least nine tenths of the regular part are planned. On average, the range reserves no less, and hardly less is alive. In a single
/// run, one array beside the plan may be the last to make the range grow.
#[test]
fn the_regular_part_of_detectors_is_planned() {
    const SEEDS: u64 = 4;
    let _turn = turn();
    let mut sums = [0.0; 2];
    for (seed, varies) in (1..=SEEDS).flat_map(|seed| [(seed, false), (seed, true)]) {
        let (history, share) = detector(Path::new(env!("CARGO_TARGET_TMPDIR")), "detector", seed, varies);
        let run = |policy| dry_run(&history, policy, None, NonZeroUsize::MIN).unwrap();
        let [auto, range] = [Policy::Auto, Policy::Range].map(run);
        let planned = auto.steady.planned;
        assert!(planned >= 0.9 * share, "seed {seed}: {planned:.3} are planned, and {share:.3} are regular");
        let of_live = |bytes: u64| bytes as f64 / history.peak_live_bytes() as f64;
        sums[0] += of_live(auto.steady_reserved_bytes);
        sums[1] += of_live(range.steady_reserved_bytes);
    }
    let [auto, range] = sums.map(|sum| sum / (2 * SEEDS) as f64);
    assert!(auto <= range.min(1.06), "{auto:.3} of the live memory is reserved, and {range:.3} by the range");
}

/// Some random programs. Most of the regular part is planned, without more memory than the range needs.
#[test]
fn the_regular_part_of_programs_is_planned() {
    const PROGRAMS: u64 = 16;
    let _turn = turn();
    let rows: Vec<Row> = (0..PROGRAMS).map(|seed| Row::of(seed, &mut Program::random(seed, 100), 40)).collect();
    let mean = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).sum::<f64>() / PROGRAMS as f64;
    let planned = mean(&|row| row.planned()[0].min(1.0));
    let reserved = mean(&|row| row.auto.reserved as f64 / row.range.reserved as f64);
    println!("planned {planned:.3} of the regular part, reserved {reserved:.3} of what the range does");
    assert!(planned >= PLANNED, "{planned:.3} of the regular part is planned");
    assert!(reserved <= RESERVED, "{reserved:.3} of what the range reserves");
}

/// The trace of a detector as a file in this folder, and the share of its allocations that is regular.
fn detector(folder: &Path, name: &str, seed: u64, varies: bool) -> (History, f64) {
    let (text, share) = Training { steps: 24, images: 2, varies, seed }.trace();
    let path = folder.join(format!("{name}.csv"));
    std::fs::write(&path, &text).unwrap();
    (History::read(&path).unwrap(), share)
}

/// Writes the traces of a detector into the folder that `TRACES` names, and replays them.
#[test]
#[ignore = "measures"]
fn detectors() {
    let _turn = turn();
    let folder = std::env::var("TRACES").map_or_else(|_| std::env::temp_dir(), PathBuf::from);
    for (name, varies) in [("detector", false), ("detector_sizes", true)] {
        let (history, share) = detector(&folder, name, number("SEED").unwrap_or(1), varies);
        println!("{name}: {} operations, {share:.3} of the allocations are regular", history.operations());
        for (policy, passes) in [(Policy::Auto, 1), (Policy::Auto, 5), (Policy::Range, 1), (Policy::Range, 5)] {
            let figures = dry_run(&history, policy, None, NonZeroUsize::new(passes).unwrap()).unwrap();
            let of_live = |bytes: u64| bytes as f64 / figures.peak_live_bytes as f64;
            println!(
                "{:5}, {passes} passes: planned {:.3}, reserved {:.3} (whole run {:.3}) of {} MiB live, {:.1} ns, {} calls",
                policy.name(),
                figures.steady.planned,
                of_live(figures.steady_reserved_bytes),
                of_live(figures.peak_reserved_bytes),
                figures.peak_live_bytes >> 20,
                figures.steady_ns_per_operation,
                figures.steady_device_calls
            );
        }
    }
}
