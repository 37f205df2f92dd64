//! Arrays that live on into later entries. A ring carries them, without a call, and never where something else is alive.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::thread;

use fastrand::Rng;
use gpucache::device::{Device, Host, Virtual};
use gpucache::{
    Allocate, Array, Recycle, Scope, invalidate,
    stats::{PlanStats, Unplanned},
};
use gpucache_tests::counting::{Counting, allocations};

#[global_allocator]
static COUNTING: Counting = Counting;

const MIB: usize = 1 << 20;

/// Replaces each array of `kept` in an entry of its own, as a step that returns its state does.
fn replace_all<D: Device>(device: &D, scope: &Scope<'_>, sizes: &[usize], kept: &mut Vec<Array<u8, D>>) {
    scope.run(|| {
        for (place, &bytes) in sizes.iter().enumerate() {
            let new = Array::zeros(device, bytes).unwrap();
            match kept.get_mut(place) {
                Some(old) => *old = new,
                None => kept.push(new),
            }
        }
    });
}

fn plans(scope: &Scope<'_>) -> PlanStats {
    scope.stats().unwrap().plan
}

/// The most reserved memory in warm entries ÷ the most live memory (all arrays, and the largest once more).
fn reserved(name: &str, sizes: &[usize]) -> f64 {
    let (device, scope, mut kept) = (Virtual::unchecked(1 << 40), Scope::new(name), Vec::new());
    // By then, the range was looked at for memory that nobody needs any more.
    (0..400).for_each(|_| replace_all(&device, &scope, sizes, &mut kept));
    let (before, taken) = (plans(&scope), device.memory().times_taken());
    let heap = allocations();
    let mut most = 0;
    for _ in 0..500 {
        replace_all(&device, &scope, sizes, &mut kept);
        most = most.max(device.memory().bytes);
    }
    assert_eq!(allocations() - heap, 0, "{name}: allocations of the host's heap");
    assert_eq!(device.memory().times_taken() - taken, 0, "{name}: calls of the device");
    let after = plans(&scope);
    assert_eq!(after.carried - before.carried, 500 * sizes.len() as u64, "{name}: {after}");
    assert_eq!((after.unplanned, after.aside - before.aside), (None, 0), "{name}");
    most as f64 / (sizes.iter().sum::<usize>() + sizes.iter().max().unwrap()) as f64
}

/// Each array replaces the one before the last. An entry like this has no plan's block. Now and then the range is asked for one in vain.
#[test]
fn states_that_are_replaced_many_times_an_entry_take_no_memory_of_the_heap() {
    for (states, bytes) in [(2, 4 * MIB), (3, 4 * MIB), (4, 4 * MIB)] {
        let name = format!("{states} states of {bytes} bytes");
        let (device, scope) = (Virtual::unchecked(1 << 40), Scope::new(&name));
        let mut kept: Vec<Option<Array<u8, _>>> = (0..states).map(|_| None).collect();
        let mut entry = |_| {
            scope.run(|| (0..32).for_each(|place| kept[place % states] = Some(Array::zeros(&device, bytes).unwrap())))
        };
        (0..400).for_each(&mut entry);
        let before = allocations();
        (0..1000).for_each(&mut entry);
        assert_eq!(allocations() - before, 0, "{name}");
    }
}

#[test]
fn like_arrays_that_are_replaced_take_one_place_more() {
    let reserved = reserved("like", &[4 * MIB; 24]);
    assert!(reserved <= 1.03, "{reserved}");
}

/// Training keeps its loss like this. A ring of whole pages would hold a page for four bytes.
#[test]
fn small_arrays_that_are_replaced_take_no_page_of_their_own() {
    // One size; several sizes, whose turns are planned; and similar sizes that vary, for which the final size of the ring is
    // unknown.
    let sizes: [&[usize]; 3] = [&[4], &[4, 700, 9000, 300_000], &[60_000; 9]];
    for (number, sizes) in sizes.into_iter().enumerate() {
        let name = format!("small {number}");
        let (device, scope, mut kept) = (Virtual::unchecked(1 << 40), Scope::new(&name), Vec::new());
        let mut entry = |round: usize| {
            scope.run(|| {
                let work = [9 * MIB, 3 * MIB + 512].map(|bytes| Array::<u8, _>::zeros(&device, bytes).unwrap());
                for (place, &bytes) in sizes.iter().enumerate() {
                    let varies = if number == 2 { 256 * (round % 7) } else { 0 };
                    let new = Array::<u8, _>::zeros(&device, bytes + varies).unwrap();
                    if place < kept.len() { kept[place] = new } else { kept.push(new) }
                }
                drop(work);
            });
        };
        (0..400).for_each(&mut entry);
        let before = plans(&scope);
        (0..100).for_each(&mut entry);
        let after = plans(&scope);
        let pages = device.memory().bytes / (2 * MIB) as u64;
        assert_eq!(after.carried - before.carried, 100 * sizes.len() as u64, "{after}");
        // The arrays of the work lie in six pages and 512 bytes.
        assert_eq!(pages, 7, "{sizes:?}: {after}");
    }
}

/// A list serves a number until the ring has it. The block in the list then lies in a page that the arena does not need.
#[test]
fn what_a_list_kept_before_the_ring_holds_no_page() {
    let (device, scope, mut mask) = (Virtual::unchecked(1 << 40), Scope::new("list before ring"), None);
    for _ in 0..100 {
        // The number is dropped before the next entry.
        let _number = scope.run(|| {
            let first = Array::<u8, _>::zeros(&device, 5 * MIB).unwrap();
            mask.get_or_insert_with(|| Array::<u8, _>::zeros(&device, 10_000).unwrap());
            drop(first);
            let work = Array::<u8, _>::zeros(&device, 40 * MIB).unwrap();
            let number = Array::<u8, _>::zeros(&device, 4).unwrap();
            drop(work);
            number
        });
    }
    let stats = plans(&scope);
    assert!(stats.carried > 80, "{stats}");
    // The arena begins behind the mask, in the middle of a page.
    assert_eq!(device.memory().bytes, 42 * MIB as u64, "{stats}");
}

#[test]
fn what_is_carried_no_more_can_be_trimmed() {
    let (device, scope, mut kept) = (Virtual::new(1 << 40), Scope::new("no more"), Vec::new());
    (0..50).for_each(|_| replace_all(&device, &scope, &[4 * MIB; 24], &mut kept));
    assert!(plans(&scope).carried > 0);
    kept.truncate(6);
    device.trim();
    assert_eq!(device.memory().bytes, 6 * 4 * MIB as u64, "what is alive");
    kept.clear();
    device.trim();
    assert_eq!(device.memory().bytes, 0);
    (0..50).for_each(|_| replace_all(&device, &scope, &[4 * MIB; 24], &mut kept));
    assert_eq!(invalidate("no more").busy_blocks, 24);
    assert_eq!(device.memory().bytes, 24 * 4 * MIB as u64, "what is alive");
}

/// Between two entries the arena is empty, so another scope may get its memory. The ring is not empty.
#[test]
fn an_invalidation_leaves_the_pages_of_an_arena_that_was_lent() {
    let (device, mut kept) = (Virtual::new(1 << 40), VecDeque::new());
    let (replaces, borrows) = (Scope::new("replaces"), Scope::new("borrows"));
    let mut step = || {
        let before = device.memory().times_taken();
        replaces.run(|| {
            drop(Array::<u8, _>::zeros(&device, 64 * MIB).unwrap());
            for _ in 0..8 {
                kept.push_back(Array::<u8, _>::zeros(&device, 4 * MIB).unwrap());
                kept.drain(..kept.len().saturating_sub(8));
            }
        });
        device.memory().times_taken() - before
    };
    let _cold: u64 = (0..50).map(|_| step()).sum();
    for round in 0..10 {
        borrows.run(|| drop(Array::<u8, _>::zeros(&device, 128 * MIB).unwrap()));
        assert_eq!(invalidate("borrows").bytes, 128 * MIB as u64);
        assert_eq!(step(), 0, "round {round}: {}", plans(&replaces));
    }
}

#[test]
fn unlike_arrays_that_are_replaced_take_little_more() {
    let shares: Vec<f64> = (0..8)
        .map(|seed| {
            let mut rng = Rng::with_seed(seed);
            let sizes: Vec<usize> = (0..40).map(|_| (65_536.0 * 10f64.powf(3.0 * rng.f64())) as usize).collect();
            reserved(&format!("unlike {seed}"), &sizes)
        })
        .collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean <= 1.10, "{mean}: {shares:.3?}");
}

#[test]
fn what_is_replaced_by_chance_comes_to_be_carried() {
    let (device, scope, mut rng) = (Virtual::unchecked(1 << 40), Scope::new("by chance"), Rng::with_seed(7));
    let mut kept: Vec<Option<Array<u8, Virtual>>> = (0..32).map(|_| None).collect();
    let mut entry = || {
        scope.run(|| {
            let mut temporary = None;
            for place in &mut kept {
                let new = Array::zeros(&device, 4 * MIB).unwrap();
                let old = if rng.u8(0..3) == 0 { place.replace(new) } else { temporary.replace(new) };
                drop(old);
            }
        });
    };
    (0..600).for_each(|_| entry());
    let (before, heap) = (plans(&scope), allocations());
    (0..500).for_each(|_| entry());
    assert_eq!(allocations() - heap, 0, "allocations of the host's heap");
    let after = plans(&scope);
    assert_eq!(after.carried - before.carried, 500 * 32, "{after}");
    let most = (33 * 4 * MIB) as f64;
    assert!(device.memory().bytes as f64 <= 1.15 * most, "{}", device.memory().bytes);
}

/// The arrays of a random program. Each contains only its own number.
#[derive(Default)]
struct Kept {
    arrays: Vec<(u32, u8, Array<u8, Host>)>,
    number: u8,
}

impl Kept {
    fn allocate(&mut self, host: &Host, bytes: usize, until: u32) {
        self.number = self.number.wrapping_add(1);
        let array = Array::full(host, bytes, self.number).unwrap();
        self.arrays.push((until, self.number, array));
    }

    /// Drops the arrays that are due, some of them on another thread, and checks them before.
    fn drop_due(&mut self, rng: &mut Rng, now: u32) {
        let due: Vec<_> = self.arrays.extract_if(.., |(until, ..)| *until <= now).collect();
        for (_, number, array) in due {
            assert!(array.iter().all(|&byte| byte == number), "an array was written by another one");
            match rng.u8(0..16) {
                0 => thread::scope(|scope| drop(scope.spawn(|| drop(array)))),
                _ => drop(array),
            }
        }
    }
}

/// Entries of one order. Their arrays live for some allocations or some entries, in regular and in random ways.
fn play(seed: u64, operations: usize) {
    let (mut rng, host) = (Rng::with_seed(seed), Host::new());
    let name = format!("random lives {seed}");
    let scope = Scope::new(&name);
    let alike = rng.bool();
    let size = |rng: &mut Rng| if alike { 1 << 12 } else { rng.usize(1..1 << 14) };
    let order: Vec<(usize, u32)> = (0..rng.usize(1..30)).map(|_| (size(&mut rng), rng.u32(1..70))).collect();
    let (mut kept, mut now) = (Kept::default(), 0);
    while (now as usize) < operations {
        let grows = rng.usize(0..64);
        scope.run(|| {
            for &(bytes, life) in &order {
                let life = if rng.u8(0..20) == 0 { rng.u32(1..200) } else { life };
                kept.allocate(&host, bytes + grows * usize::from(seed.is_multiple_of(3)), now + life);
                now += 1;
                kept.drop_due(&mut rng, now);
            }
        });
        if rng.u16(0..400) == 0 {
            invalidate(&name);
        }
        if rng.u16(0..400) == 0 {
            host.trim();
        }
    }
    kept.drop_due(&mut rng, u32::MAX);
}

#[test]
fn random_lives_across_entries() {
    let operations = std::env::var("OPERATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(100_000);
    let seeds = 40;
    (0..seeds).for_each(|seed| play(seed, operations / seeds as usize));
}

#[test]
fn a_scope_says_why_it_is_not_planned() {
    let host = Host::new();
    let scope = Scope::new("why");
    let mut rng = Rng::with_seed(1);
    scope.run(|| drop(host.zeros::<u8>(100).unwrap()));
    assert_eq!(plans(&scope).unplanned, Some(Unplanned::Learning));
    for _ in 0..100 {
        scope.run(|| (0..rng.usize(1..40)).for_each(|_| drop(host.zeros::<u8>(rng.usize(1..1 << 20)).unwrap())));
    }
    assert_eq!(plans(&scope).unplanned, Some(Unplanned::Irregular), "{}", plans(&scope));
    let planned = Scope::new("planned").recycle(Recycle::Auto);
    for _ in 0..10 {
        planned.run(|| drop(host.zeros::<u8>(100).unwrap()));
    }
    assert_eq!(plans(&planned).unplanned, None);
}
