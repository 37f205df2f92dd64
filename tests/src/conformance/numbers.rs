//! The exact statistics of a scope in known sequences.

use gpucache::device::Device;
use gpucache::{Array, Result, cache_scope, invalidate, stats::ScopeStats};

use crate::faulty::is_faulty;
use crate::supplied;

use super::{Context, memory, stats_of, touch};

/// The compared numbers: entries, hits, all other allocations, (busy blocks, bytes), (idle blocks, bytes), peak, misses.
type Numbers = (u64, u64, u64, (u64, u64), (u64, u64), u64, u64);

fn numbers<D: Device>(device: &D, name: &str) -> Numbers {
    let stats = stats_of(name);
    let ScopeStats { entries, hits, misses, busy_blocks, busy_bytes, idle_blocks, idle_bytes, .. } = stats;
    // A range still has memory of earlier tests, and serves some requests without the device.
    let misses = if is_faulty(device) { misses } else { supplied(&stats) };
    let (busy, idle) = ((busy_blocks, busy_bytes), (idle_blocks, idle_bytes));
    (entries, hits, supplied(&stats), busy, idle, stats.high_water_bytes, misses)
}

/// Checks every number after every step.
pub fn a_scripted_sequence<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    assert_eq!(gpucache::stats(&name), None);
    cache_scope!(name = &name, {
        assert_eq!(numbers(device, &name), (1, 0, 0, (0, 0), (0, 0), 0, 0));
        let a = Array::<u32, D>::zeros(device, 10)?;
        assert_eq!(numbers(device, &name), (1, 0, 1, (1, 40), (0, 0), 40, 1));
        let b = Array::<u8, D>::zeros(device, 5)?;
        assert_eq!(numbers(device, &name), (1, 0, 2, (2, 45), (0, 0), 45, 2));
        drop(a);
        assert_eq!(numbers(device, &name), (1, 0, 2, (1, 5), (1, 40), 45, 2));
        let c = Array::<u32, D>::zeros(device, 10)?;
        assert_eq!(numbers(device, &name), (1, 1, 2, (2, 45), (0, 0), 45, 2));
        drop((b, c));
        assert_eq!(numbers(device, &name), (1, 1, 2, (0, 0), (2, 45), 45, 2));
        cache_scope!(name = &name, { touch::<u8, D>(device, 5)? });
        assert_eq!(numbers(device, &name), (2, 2, 2, (0, 0), (2, 45), 45, 2));
    });
    let kept = cache_scope!(name = &name, { Array::<u8, D>::zeros(device, 5)? });
    assert_eq!(numbers(device, &name), (3, 3, 2, (1, 5), (1, 40), 45, 2));
    let _ = invalidate(&name);
    assert_eq!(numbers(device, &name), (3, 3, 2, (1, 5), (0, 0), 45, 2));
    drop(kept);
    assert_eq!(numbers(device, &name), (3, 3, 2, (0, 0), (0, 0), 45, 2));
    Ok(())
}

/// The peak is the most memory in use at once, not the sum of all allocations.
pub fn the_high_water_mark<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        for len in [100, 300, 200] {
            touch::<u8, D>(device, len)?;
        }
        assert_eq!(stats_of(&name).high_water_bytes, 300);
        let _both = [Array::<u8, D>::zeros(device, 200)?, Array::<u8, D>::zeros(device, 200)?];
        assert_eq!(stats_of(&name).high_water_bytes, 400);
    });
    let _ = invalidate(&name);
    assert_eq!(stats_of(&name).high_water_bytes, 400);
    Ok(())
}

/// Memory that another thread dropped is not in use, even before its own thread notices.
pub fn the_mark_does_not_count_what_came_back<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        touch::<u8, D>(device, 50)?;
        let array = Array::<u8, D>::zeros(device, 100)?;
        std::thread::scope(|threads| threads.spawn(|| drop(array)).join().expect("no panic"));
        touch::<u8, D>(device, 50)?;
        assert_eq!(stats_of(&name).high_water_bytes, 100);
    });
    Ok(())
}

/// Arrays of 0 bytes make no request to the device.
pub fn arrays_without_bytes_are_no_misses<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        let _two = [Array::<u8, D>::zeros(device, 0)?, Array::<u8, D>::zeros(device, 0)?];
        touch::<u8, D>(device, 1)?;
        let asked = if is_faulty(device) { 1 } else { 3 };
        assert_eq!(numbers(device, &name), (1, 0, 3, (2, 0), (1, 1), 1, asked));
    });
    Ok(())
}

/// Without recycling, every allocation is a miss and a call of the device's own allocator, and nothing is ever idle.
pub fn off_asks_the_device_each_time<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, recycle = "off", {
        let a = Array::<u8, D>::zeros(device, 8)?;
        touch::<u8, D>(device, 8)?;
        assert_eq!(numbers(device, &name), (1, 0, 2, (1, 8), (0, 0), 16, 2));
        drop(a);
    });
    assert_eq!(numbers(device, &name), (1, 0, 2, (0, 0), (0, 0), 16, 2));
    let stats = stats_of(&name);
    assert_eq!((stats.misses, stats.device_allocations, stats.mapped_pieces), (2, 2, 0));
    Ok(())
}

/// Arrays of no scope are not counted.
pub fn plain_arrays_are_not_counted<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let plain = Array::<u8, D>::zeros(device, 8)?;
    cache_scope!(name = &name, {
        drop(plain);
        gpucache::uncached!({ touch::<u8, D>(device, 8)? });
    });
    assert_eq!(numbers(device, &name), (1, 0, 0, (0, 0), (0, 0), 0, 0));
    Ok(())
}

/// The device's own count of allocations agrees with the scope's.
pub fn the_device_is_asked_once_per_miss<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).allocations;
    for _ in 0..4 {
        cache_scope!(name = &name, recycle = "range", {
            for len in 0..10 {
                let _held = Array::<u16, D>::zeros(device, len)?;
                touch::<u16, D>(device, len)?;
            }
        });
    }
    let stats = stats_of(&name);
    assert_eq!((supplied(&stats), stats.hits), (20, 60));
    assert!(stats.misses == 18 || !is_faulty(device) && stats.misses < 18);
    assert!(!is_faulty(device) || (stats.device_allocations, stats.mapped_pieces) == (18, 0));
    assert!(stats.device_allocations + stats.mapped_pieces >= stats.misses);
    assert_eq!(memory(device).allocations, before + 18);
    Ok(())
}
