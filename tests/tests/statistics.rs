//! Compares statistics with a naive account over random programs: sums agree, peaks are exact and can be reset, and statistics can
//! be written and read again.
//!
//! `PROGRAMS=1000 cargo test --release -p gpucache-tests --test statistics` runs 1,000 programs.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;

use fastrand::Rng;
use gpucache::device::{Device, DeviceKind, Virtual};
use gpucache::{
    Array, Recycle, Scope, cache_scope, invalidate,
    prelude::*,
    stats,
    stats::{DeviceStats, ProcessStats, ScopeStats, ThreadStats, top},
};
use gpucache_tests::{seeds, turn};

type Bytes = Array<u8, Virtual>;

const RECYCLES: [Recycle; 4] = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];

/// A naive account of what one scope did.
struct Account {
    name: String,
    recycle: Recycle,
    /// For each array of an entry: its size, whether it outlives the entry, and whether an array is dropped behind it.
    order: Vec<(usize, bool, bool)>,
    kept: Vec<Bytes>,
    allocations: u64,
    bytes: u64,
    peak: u64,
    /// The most bytes that were ever reported in use by plan, and beside it.
    told: (u64, u64),
}

impl Account {
    fn new(rng: &mut Rng, number: usize) -> Account {
        let (name, recycle) = (format!("statistics: {number} of {}", rng.u64(..)), RECYCLES[number % RECYCLES.len()]);
        let order = (0..rng.usize(2..20)).map(|_| (rng.usize(1..1 << 20), rng.u8(..8) == 0, rng.bool())).collect();
        Account { name, recycle, order, kept: Vec::new(), allocations: 0, bytes: 0, peak: 0, told: (0, 0) }
    }

    fn busy(&self, here: &[Bytes]) -> (u64, u64) {
        let all = || self.kept.iter().chain(here);
        (all().count() as u64, all().map(|array| array.len() as u64).sum())
    }

    /// Checks the statistics after each step. `here` are the arrays of the current entry that are alive.
    fn verify(&mut self, here: &[Bytes]) -> ScopeStats {
        let (blocks, bytes) = self.busy(here);
        self.peak = self.peak.max(bytes);
        let now = stats(&self.name).unwrap();
        self.told = (self.told.0.max(now.in_plan.bytes), self.told.1.max(now.outside_plan.bytes));
        assert_eq!((now.busy_blocks, now.busy_bytes), (blocks, bytes), "{}", self.name);
        assert_eq!(now.in_plan.blocks + now.outside_plan.blocks, blocks, "{now}");
        assert_eq!(now.in_plan.bytes + now.outside_plan.bytes, bytes, "{now}");
        assert_eq!(now.high_water_bytes, self.peak, "{now}");
        assert_eq!((now.in_plan.peak_bytes, now.outside_plan.peak_bytes), self.told, "{now}");
        assert_eq!((now.served.all().allocations, now.allocations()), (self.allocations, self.allocations), "{now}");
        assert_eq!(now.served.direct.allocations > 0, self.recycle == Recycle::Off && self.allocations > 0);
        now
    }

    /// Runs one entry, in its order or nearly so.
    fn enter(&mut self, rng: &mut Rng, device: &Virtual) {
        let inside = Scope::new(&self.name).recycle(self.recycle).enter();
        let mut here = Vec::new();
        // The plan may have given its arena up. Arrays that were alive in it then count as beside it.
        self.verify(&here);
        for (bytes, outlives, is_followed) in self.order.clone() {
            let bytes = if rng.u8(..64) == 0 { rng.usize(1..1 << 20) } else { bytes };
            if self.kept.len() > 8 {
                self.kept.remove(0);
            }
            let array = device.zeros::<u8>(bytes).unwrap();
            (self.allocations, self.bytes) = (self.allocations + 1, self.bytes + bytes as u64);
            if outlives { &mut self.kept } else { &mut here }.push(array);
            self.verify(&here);
            if is_followed {
                here.pop();
            }
            if rng.u8(..64) == 0 {
                self.reset(&here);
            }
        }
        drop((here, inside));
        self.verify(&[]);
    }

    fn reset(&mut self, here: &[Bytes]) {
        assert!(stats::reset_peaks(&self.name));
        (self.peak, self.told) = (0, (0, 0));
        self.verify(here);
    }
}

fn sum_of(threads: &[ThreadStats]) -> ScopeStats {
    threads.iter().fold(ScopeStats::default(), |mut sum, thread| {
        sum += &thread.stats;
        sum
    })
}

/// Checks the device's statistics: the memory of a device is that of its scopes and of arrays of no scope, and the process's is
/// that of its devices.
fn verify_device(device: &Virtual, accounts: &[Account], outside: &[Bytes]) {
    let (now, process) = (device.stats(), stats::process());
    let of = |is_off: bool| {
        let some = accounts.iter().filter(move |account| (account.recycle == Recycle::Off) == is_off);
        some.map(|account| stats(&account.name).unwrap_or_default()).collect::<Vec<_>>()
    };
    let direct = of(true).iter().map(|scope| scope.busy_bytes).sum::<u64>();
    let outside = outside.iter().map(|array| array.len() as u64).sum::<u64>();
    assert_eq!((now.direct_bytes, now.memory.bytes), (direct + outside, now.range.reserved_bytes + direct + outside));
    let held = of(false).iter().map(|scope| scope.busy_bytes + scope.idle_bytes).sum::<u64>();
    assert!(now.range.block_bytes >= held && now.range.block_bytes <= held + held / 4 + (1 << 20), "{held} of {now}");
    assert_eq!(now.range.free_bytes, now.range.reserved_bytes - now.range.block_bytes);
    assert!(now.range.longest_free_bytes <= now.range.free_bytes && (0.0..1.0).contains(&now.range.fragmentation()));
    assert_eq!(process.devices.iter().find(|other| other.device == now.device), Some(&now));
    for scope in &process.scopes {
        let name = scope.name.clone();
        let mut sum = sum_of(&scope.threads);
        (sum.name, sum.offload, sum.threads) = (name, scope.offload, scope.threads.clone());
        // The first thread without plans tells why.
        sum.plan.unplanned = scope.plan.unplanned;
        assert_eq!(sum, *scope);
    }
}

#[test]
fn sums_agree_and_peaks_are_exact() {
    let (_turn, mut planned) = (turn(), 0);
    seeds::each(20, 1, |seed| {
        let (mut rng, device) = (Rng::with_seed(seed), Virtual::new(1 << 40));
        let mut accounts: Vec<Account> = (0..4).map(|number| Account::new(&mut rng, number)).collect();
        let mut outside = Vec::new();
        for _ in 0..60 {
            let chosen = rng.usize(..accounts.len());
            match rng.u8(..16) {
                0 => outside.push(device.zeros::<u8>(rng.usize(1..1 << 20)).unwrap()),
                1 => drop(outside.pop()),
                2 => _ = invalidate(&accounts[chosen].name),
                3 if accounts[chosen].allocations > 0 => accounts[chosen].reset(&[]),
                _ => (0..4).for_each(|_| accounts[chosen].enter(&mut rng, &device)),
            }
            accounts.iter_mut().filter(|account| account.allocations > 0).for_each(|account| _ = account.verify(&[]));
            verify_device(&device, &accounts, &outside);
        }
        planned += stats(&accounts[0].name).unwrap_or_default().served.planned.allocations;
        accounts.iter().for_each(|account| _ = invalidate(&account.name));
    });
    println!("{planned} allocations were planned");
    assert!(planned > 0);
}

/// If the order repeats and the sizes do not vary, the bytes of all services are the requested bytes.
#[test]
fn bytes_by_service_are_those_asked_for() -> gpucache::Result<()> {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    for _ in 0..50 {
        cache_scope!(exact, {
            let first = device.zeros::<u8>(1000)?;
            drop(device.zeros::<u8>(5000)?);
            drop((first, device.zeros::<u8>(77)?));
        });
    }
    let served = stats("exact").unwrap().served;
    assert_eq!((served.all().allocations, served.all().bytes), (150, 50 * (1000 + 5000 + 77)));
    assert_eq!((served.planned.allocations, served.planned.bytes), (144, 48 * 6077));
    Ok(())
}

/// An allocation for which a ring grew counts as planned and carried, and as recycled or missed.
#[test]
fn allocations_of_a_ring_that_grows_are_counted_by_all_in_one_way() {
    let _turn = turn();
    let (device, mut kept) = (Virtual::new(1 << 40), VecDeque::new());
    for entry in 0..400 {
        cache_scope!(grown_ring, { kept.push_back(device.zeros::<u8>(1 << 20).unwrap()) });
        // More and more arrays live on: twice as many each hundred entries.
        while kept.len() > 2 << (entry / 100) {
            kept.pop_front();
        }
    }
    let now = stats("grown_ring").unwrap();
    let (planned, listed) = (now.served.planned.allocations, now.served.listed.allocations);
    assert!(planned > 300 && planned + listed > now.hits, "the ring grew: {now}");
    assert_eq!(planned, now.plan.carried, "{now}\n{}", now.plan);
    assert_eq!((now.served.all().allocations, now.allocations()), (400, 400), "{now}");
    let _ = invalidate("grown_ring");
}

#[test]
fn a_peak_of_a_thread_that_is_inside_begins_anew_when_it_leaves() {
    let _turn = turn();
    let (go, wait) = mpsc::channel::<()>();
    let (told, tell) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let device = Virtual::new(1 << 30);
        cache_scope!(elsewhere, {
            drop(device.zeros::<u8>(1 << 20).unwrap());
            told.send(()).unwrap();
            wait.recv().unwrap();
        });
        told.send(()).unwrap();
        wait.recv().unwrap();
        cache_scope!(elsewhere, { drop(device.zeros::<u8>(100).unwrap()) });
    });
    let peak = || stats("elsewhere").unwrap().high_water_bytes;
    tell.recv().unwrap();
    assert!(stats::reset_peaks("elsewhere"));
    assert_eq!(peak(), 1 << 20);
    go.send(()).unwrap();
    tell.recv().unwrap();
    assert_eq!(peak(), 0);
    go.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(peak(), 100);
}

#[test]
fn peaks_of_devices_begin_anew() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let kept = device.zeros::<u8>(1000).unwrap();
    drop(device.zeros::<u8>(5000).unwrap());
    assert_eq!(device.memory().peak_bytes, 6000);
    device.reset_peaks();
    assert_eq!(device.memory().peak_bytes, 1000);
    drop(device.zeros::<u8>(10).unwrap());
    assert_eq!(device.memory().peak_bytes, 1010);
    assert!(!stats::reset_peaks("statistics: nobody"));
    drop(kept);
}

/// Threads allocate outside scopes and in scopes, and free all of it, while another thread reads the statistics of their device.
#[test]
fn a_reading_while_others_allocate_agrees_with_itself() {
    let _turn = turn();
    read_while_others_allocate(20_000);
}

/// Each device is new, so its range is made during a reading.
#[test]
fn a_reading_while_a_range_is_made_agrees_with_itself() {
    let _turn = turn();
    (0..500).for_each(|_| read_while_others_allocate(20));
}

fn read_while_others_allocate(readings: u32) {
    let device = Virtual::new(1 << 40);
    let is_over = AtomicBool::new(false);
    let churn = |name: &str| {
        while !is_over.load(Relaxed) {
            let outside = device.zeros::<u8>(3000).unwrap();
            Scope::new(name).run(|| drop(device.zeros::<u8>(32 << 20).unwrap()));
            drop(outside);
            let _ = invalidate(name);
        }
    };
    let look = || {
        let DeviceStats { memory, range, direct_bytes, .. } = device.stats();
        for used in [memory, device.memory()] {
            assert!(used.peak_bytes >= used.bytes, "{used:?}");
            assert!(used.frees <= used.allocations && used.unmapped_pieces <= used.mapped_pieces, "{used:?}");
            assert_eq!(used.bytes == 0, used.times_taken() == used.times_given_back(), "{used:?}");
        }
        assert_eq!(memory.bytes, range.reserved_bytes + direct_bytes, "{memory:?} {range:?}");
        assert_eq!(direct_bytes, 3000 * (memory.allocations - memory.frees), "{memory:?} {range:?}");
        assert_eq!(range.reserved_bytes, range.block_bytes + range.free_bytes, "{range:?}");
        assert!(range.longest_free_bytes <= range.free_bytes, "{range:?}");
    };
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| (0..readings).for_each(|_| look()));
        ["churn 0", "churn 1"].iter().for_each(|name| _ = threads.spawn(move || churn(name)));
        let read = reader.join();
        is_over.store(true, Relaxed);
        read.unwrap();
    });
}

#[test]
fn a_guard_tells_what_was_done_since_it_was_made() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let step = || cache_scope!(guarded, recycle = "keyed", { drop(device.zeros::<u8>(1 << 20).unwrap()) });
    step();
    let (outer, _) = (stats::report_on_drop("guarded"), step());
    let inner = stats::report_on_drop("guarded");
    step();
    let text = "guarded: 1 entry, 1 allocation: 1 hit, 0 recycled, 0 misses\n\
                0 bytes in use in 0 blocks, peak 1.00 MiB; 1.00 MiB idle in 1 block\n\
                \x20            allocations     bytes   in use      peak\n\
                planned                0   0 bytes  0 bytes   0 bytes\n\
                listed                 1  1.00 MiB\n\
                ranged                 0   0 bytes\n\
                direct                 0   0 bytes\n\
                not planned                         0 bytes  1.00 MiB";
    assert_eq!(inner.to_string(), text);
    drop(inner);
    assert!(outer.to_string().starts_with("guarded: 2 entries, 2 allocations: 2 hits"), "{outer}");
    let nobody = stats::report_on_drop("statistics: nobody").to_string();
    assert_eq!(nobody, "statistics: nobody: no thread ever entered a scope of this name");
}

#[test]
fn what_is_told_can_be_written_down_and_read_again() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    device.set_limit(1 << 29).unwrap();
    for _ in 0..10 {
        cache_scope!(written, { drop(device.zeros::<u8>(1 << 20).unwrap()) });
    }
    assert!(device.zeros::<u8>(1 << 30).is_err());
    let now = stats::process();
    let text = serde_json::to_string(&now).unwrap();
    assert_eq!(serde_json::from_str::<ProcessStats>(&text).unwrap(), now);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let scopes = value["scopes"].as_array().unwrap();
    let written = scopes.iter().find(|scope| scope["name"] == "written").unwrap();
    assert_eq!(written["served"]["planned"]["allocations"], 8);
    assert_eq!(written["threads"][0]["stats"]["entries"], 10);
    let shown = now.to_string();
    assert!(shown.lines().any(|line| line.starts_with("written ") && line.contains("80.0%")), "{shown}");
    let of_device = device.stats().to_string();
    assert!(of_device.ends_with("1 shortage, 1 of them errors"), "{of_device}");
}

/// The longest bar is full if all is in use, the others are as long as their part, and lines are aligned.
#[test]
fn a_view_has_a_line_for_each_scope_and_thread() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    let mut view = top();
    let large = cache_scope!(view_large, recycle = "keyed", { device.zeros::<u8>(1 << 36).unwrap() });
    cache_scope!(view_half, recycle = "keyed", {
        let half = device.zeros::<u8>(1 << 34).unwrap();
        drop((device.zeros::<u8>(1 << 34).unwrap(), half));
    });
    view.renew();
    let shown = view.to_string();
    let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap().to_string();
    assert!(line("view_large").contains(&format!("[{}]", "#".repeat(20))), "{shown}");
    assert!(line("view_half").contains(&format!("[{}{}]", ".".repeat(10), " ".repeat(10))), "{shown}");
    let rate: f64 = line("view_half").split_whitespace().last().unwrap().parse().unwrap();
    assert!(rate > 0.0);
    view.renew();
    let shown = view.to_string();
    assert!(shown.lines().any(|line| line.starts_with("view_half") && line.ends_with(" 0")), "{shown}");
    drop(large);
    ["view_large", "view_half"].iter().for_each(|name| _ = invalidate(name));
}

/// A name of any length and content gets one line that fits a screen.
#[test]
fn any_name_has_one_line() {
    let _turn = turn();
    let names = ["two\nlines of \u{1b}[31m".to_owned(), "😀 🎉".to_owned(), "long ".repeat(20_000)];
    for name in &names {
        Scope::new(name).run(|| drop(Virtual::new(1 << 30).zeros::<u8>(1000).unwrap()));
        let told = [top().to_string(), stats::process().to_string(), stats::report_on_drop(name).to_string()];
        let diagnosis = gpucache::diagnose(name).unwrap().to_string();
        for line in told.iter().flat_map(|text| text.lines()).chain(diagnosis.lines()) {
            assert!(line.chars().count() < 250 && !line.contains('\u{1b}') && !line.starts_with("lines of"), "{line}");
        }
        let _ = invalidate(name);
    }
}

/// Tables of devices say of which kind each device is.
#[test]
fn a_device_has_its_kind() {
    let _turn = turn();
    let (host, virtual_device) = (Host::new(), Virtual::new(1 << 30));
    assert_eq!((host.stats().kind, virtual_device.stats().kind), (DeviceKind::Host, DeviceKind::Virtual));
    let head = format!("device {} (virtual)", virtual_device.stats().device);
    assert!(virtual_device.stats().to_string().starts_with(&head), "{}", virtual_device.stats());
    let _kept = (host.zeros::<u8>(1).unwrap(), virtual_device.zeros::<u8>(1).unwrap());
    let table = stats::process().to_string();
    assert!(table.contains(" (host)") && table.contains(" (virtual)"), "{table}");
}
