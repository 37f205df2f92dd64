//! A miss is an allocation for which memory was taken from the device, and no other allocation. Each is compared with the
//! device's own counters.

use fastrand::Rng;
use gpucache::device::{Device, MemoryUse, Virtual};
use gpucache::{Array, Recycle, Scope, cache_scope, stats, stats::ScopeStats};
use gpucache_tests::Faulty;
use gpucache_tests::conformance::stats_of;

const POLICIES: [(&str, Recycle); 4] = [
    ("misses: auto", Recycle::Auto),
    ("misses: range", Recycle::Range),
    ("misses: keyed", Recycle::Keyed),
    ("misses: off", Recycle::Off),
];

/// Allocates, and compares the scope's counters with the device's.
fn allocate<D: Device>(device: &D, name: &str, bytes: usize) -> Array<u8, D> {
    let count =
        |stats: ScopeStats| [stats.hits, stats.recycled, stats.misses, stats.device_allocations, stats.mapped_pieces];
    let (before, held) = (count(stats_of(name)), device.memory());
    let array = Array::zeros(device, bytes).unwrap();
    let now = device.memory();
    let [hits, recycled, misses, allocations, pieces] =
        std::array::from_fn(|at| count(stats_of(name))[at] - before[at]);
    let is_miss = now.times_taken() > held.times_taken();
    assert_eq!((hits + recycled, misses), (u64::from(!is_miss), u64::from(is_miss)), "{name}: {bytes} bytes");
    assert_eq!((allocations, pieces), (now.allocations - held.allocations, now.mapped_pieces - held.mapped_pieces));
    array
}

fn random_scopes<D: Device>(device: &D, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut kept = Vec::new();
    for entry in 0..200 {
        let (name, recycle) = POLICIES[rng.usize(..POLICIES.len())];
        // Half of the scopes repeat themselves, as planning requires.
        let order = if rng.bool() { 7 } else { entry };
        let mut sizes = Rng::with_seed(order);
        Scope::new(name).recycle(recycle).run(|| {
            for _ in 0..20 {
                let array = allocate(device, name, sizes.usize(..3 << 20));
                if rng.u8(..8) == 0 {
                    kept.push(array);
                }
            }
        });
        let most = kept.len().saturating_sub(20);
        kept.drain(..most);
    }
}

#[test]
fn misses_are_what_the_device_was_asked_for() {
    let pages = Virtual::new(1 << 30);
    random_scopes(&pages, 1);
    let MemoryUse { mapped_pieces, unmapped_pieces, allocations, .. } = pages.memory();
    assert!(mapped_pieces > unmapped_pieces && allocations > 0, "pages for scopes, and what is never kept");
    random_scopes(&Faulty::with_chunks(1 << 30), 2);
    random_scopes(&Faulty::new(), 3);
    let all = POLICIES.map(|(name, _)| stats_of(name));
    assert!(all.iter().all(|stats| stats.allocations() == stats.hits + stats.recycled + stats.misses));
    assert!(all.iter().all(|stats| stats.misses > 0), "{all:?}");
    assert!(all[..3].iter().all(|stats| stats.recycled > 0), "{all:?}");
    assert_eq!((all[3].hits, all[3].mapped_pieces), (0, 0));
}

#[test]
fn what_one_scope_gave_back_is_recycled_in_another() {
    let device = Virtual::new(1 << 30);
    cache_scope!(gives, recycle = "range", {
        let arrays: Vec<_> = (1..20).map(|size| Array::<u8, _>::zeros(&device, size << 20).unwrap()).collect();
        drop(arrays);
    });
    let before = device.memory();
    cache_scope!(takes, recycle = "range", { drop(Array::<u8, _>::zeros(&device, 1 << 20).unwrap()) });
    let found = stats("takes").unwrap();
    assert_eq!((found.hits, found.recycled, found.misses, device.memory()), (0, 1, 0, before));
}

#[test]
fn the_numbers_can_be_read() {
    let device = Virtual::new(1 << 30);
    for _ in 0..10 {
        cache_scope!(shown, { drop(Array::<u8, _>::zeros(&device, 3 << 20).unwrap()) });
    }
    let expected = "10 entries, 10 allocations: 9 hits, 0 recycled, 1 miss\n\
                    0 bytes in use in 0 blocks, peak 3.00 MiB; 3.00 MiB idle in 1 block";
    let (stats, table) = (
        stats("shown").unwrap(),
        [
            "             allocations      bytes   in use      peak",
            "planned                8  24.00 MiB  0 bytes  3.00 MiB",
            "listed                 1   3.00 MiB",
            "ranged                 1   3.00 MiB",
            "direct                 0    0 bytes",
            "not planned                          0 bytes  3.00 MiB",
        ],
    );
    assert_eq!(
        (format!("{stats:#}"), stats.to_string()),
        (expected.to_string(), format!("{expected}\n{}", table.join("\n")))
    );
    let plans = gpucache::stats("shown").unwrap().plan.to_string();
    assert!(
        plans.starts_with("1 plan of 1 allocation in 3.00 MiB (at least 3.00 MiB needed), computed in "),
        "{plans}"
    );
    assert!(plans.ends_with("deviations: 0 extra, 0 missing, 0 reordered, 0 larger, 0 blocked"), "{plans}");
    let memory = device.memory().to_string();
    let pieces = match device.memory().mapped_pieces {
        1 => "1 piece".to_string(),
        pieces => format!("{pieces} pieces"),
    };
    let expected = format!("4.00 MiB reserved, peak 4.00 MiB; 0 allocations, 0 frees; {pieces} mapped, 0 unmapped");
    assert_eq!(memory, expected);
    assert_eq!(device.ordering().to_string(), "1 event, 1 query, 0 waits");
}
