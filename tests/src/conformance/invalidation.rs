//! Gives memory back by name: idle memory now, busy memory when it is dropped, live arrays never.

use std::sync::Barrier;

use gpucache::device::Device;
use gpucache::{Array, Result, cache_scope, invalidate, stats::Invalidated};

use crate::supplied;

use super::{Context, assert_pattern, busy_and_idle, hits_and_supplies, memory, patterned, stats_of, touch};

/// The result says how many bytes were idle, and how many blocks were busy.
pub fn it_tells_idle_and_busy<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let kept = cache_scope!(name = &name, {
        touch::<u8, D>(device, 100)?;
        touch::<u16, D>(device, 100)?;
        [Array::<u8, D>::zeros(device, 7)?, Array::<u8, D>::zeros(device, 8)?]
    });
    assert_eq!(invalidated(&name), (300, 2));
    assert_eq!(invalidated(&name), (0, 2));
    drop(kept);
    assert_eq!(invalidated(&name), (0, 0));
    Ok(())
}

/// The bytes and the busy blocks of a known name.
fn invalidated(name: &str) -> (u64, u64) {
    let Invalidated { is_known, bytes, busy_blocks: busy, .. } = invalidate(name);
    assert!(is_known);
    (bytes, busy)
}

/// Idle memory is back at the device when the call returns.
pub fn idle_memory_goes_now<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    cache_scope!(name = &name, { touch::<u8, D>(device, 4096)? });
    assert_eq!(memory(device).bytes, before + 4096);
    assert_eq!(invalidate(&name).bytes, 4096);
    assert_eq!(memory(device).bytes, before);
    assert_eq!(busy_and_idle(&name), (0, 0));
    Ok(())
}

/// Busy memory goes back at once when its array is dropped, and serves nobody.
pub fn busy_memory_goes_when_dropped<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    let array = cache_scope!(name = &name, { patterned(device, 1024, 1)? });
    assert_eq!(invalidated(&name), (0, 1));
    assert_pattern(&array, 1);
    assert_eq!(memory(device).bytes, before + 4096);
    drop(array);
    assert_eq!(memory(device).bytes, before);
    cache_scope!(name = &name, { touch::<u32, D>(device, 1024)? });
    assert_eq!(hits_and_supplies(&name), (0, 2));
    Ok(())
}

/// From its next entry on, an invalidated scope recycles as before.
pub fn the_scope_goes_on<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    for round in 0..3 {
        for _ in 0..3 {
            cache_scope!(name = &name, { touch::<u8, D>(device, 64)? });
        }
        assert_eq!(hits_and_supplies(&name), (2 * (round + 1), round + 1));
        // A plan's block, if there is one by then, is as large as a block of the range.
        let bytes = invalidate(&name).bytes;
        assert!([64, 256].contains(&bytes), "{bytes}");
    }
    Ok(())
}

/// Inside the scope, by its own thread: idle memory goes at once, and later allocations are kept again.
pub fn inside_the_scope<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    cache_scope!(name = &name, {
        let busy = patterned(device, 100, 1)?;
        touch::<u8, D>(device, 64)?;
        assert_eq!(invalidated(&name), (64, 1));
        assert_eq!(memory(device).bytes, before + 400);
        touch::<u8, D>(device, 64)?;
        touch::<u8, D>(device, 64)?;
        assert_eq!(hits_and_supplies(&name), (1, 3));
        assert_pattern(&busy, 1);
        drop(busy);
        assert_eq!(memory(device).bytes, before + 64);
    });
    assert_eq!(busy_and_idle(&name), (0, 1));
    Ok(())
}

/// From another thread: the thread inside gives its idle memory up at its next allocation, and not before.
pub fn from_another_thread_while_inside<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    cache_scope!(name = &name, {
        let busy = patterned(device, 100, 1)?;
        touch::<u8, D>(device, 64)?;
        assert_eq!(elsewhere(|| invalidated(&name)), (64, 1));
        assert_eq!(memory(device).bytes, before + 464, "only this thread may touch its blocks");
        let fresh = Array::<u8, D>::zeros(device, 64)?;
        assert_eq!(hits_and_supplies(&name), (0, 3), "an invalidated block does not serve");
        assert_eq!(memory(device).bytes, before + 464, "the idle block went, a new one came");
        drop(fresh);
        touch::<u8, D>(device, 64)?;
        assert_eq!(hits_and_supplies(&name), (1, 3));
        assert_pattern(&busy, 1);
        drop(busy);
        assert_eq!(memory(device).bytes, before + 64);
    });
    Ok(())
}

fn elsewhere<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|threads| threads.spawn(act).join().expect("no panic"))
}

/// From another thread: a drop and the end of the scope give idle memory up as well.
pub fn while_inside_and_idle<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    cache_scope!(name = &name, {
        touch::<u8, D>(device, 64)?;
        let busy = Array::<u8, D>::zeros(device, 32)?;
        assert_eq!(elsewhere(|| invalidated(&name)), (64, 1));
        drop(busy);
        assert_eq!(memory(device).bytes, before, "by the drop");
        touch::<u8, D>(device, 64)?;
        assert_eq!(elsewhere(|| invalidated(&name)), (64, 0));
        assert_eq!(memory(device).bytes, before + 64);
    });
    assert_eq!(memory(device).bytes, before, "by the end");
    Ok(())
}

/// By two threads at once: when either call returns, the idle memory is back.
pub fn by_two_threads_at_once<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    for round in 0..100 {
        cache_scope!(name = &name, {
            let _held = (0..20).map(|_| Array::<u8, D>::zeros(device, 64)).collect::<Result<Vec<_>>>()?;
        });
        let start = Barrier::new(2);
        let held_after = || {
            start.wait();
            let _ = invalidate(&name);
            memory(device).bytes
        };
        let held = std::thread::scope(|threads| {
            [(); 2].map(|()| threads.spawn(held_after)).map(|thread| thread.join().expect("no panic"))
        });
        assert_eq!(held, [before; 2], "bytes that are held after an invalidation in round {round}");
    }
    Ok(())
}

/// Nothing happens for a name that was never entered.
pub fn an_unknown_name_has_nothing<D: Device>(_: &D, context: &Context) -> Result<()> {
    let name = context.name("never entered");
    assert_eq!(invalidate(&name), Invalidated::default());
    assert_eq!(gpucache::stats(&name), None);
    Ok(())
}

/// Arrays of several generations are distinguished.
pub fn twice<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    let mut arrays = Vec::new();
    for round in 0..3 {
        arrays.push(cache_scope!(name = &name, { Array::<u8, D>::zeros(device, 10)? }));
        assert_eq!(invalidated(&name), (0, round + 1));
    }
    let current = cache_scope!(name = &name, { Array::<u8, D>::zeros(device, 10)? });
    drop(arrays);
    assert_eq!(memory(device).bytes, before + 10);
    drop(current);
    assert_eq!((memory(device).bytes, busy_and_idle(&name)), (before + 10, (0, 1)));
    Ok(())
}

/// An invalidation deep inside a recursion applies to all levels.
pub fn recursion_after_invalidation<D: Device>(device: &D, context: &Context) -> Result<()> {
    fn descend<D: Device>(device: &D, name: &str, depth: u32) -> Result<()> {
        cache_scope!(name = name, {
            let array = patterned(device, 20, depth)?;
            match depth {
                0 => assert_eq!(invalidate(name).busy_blocks, 4),
                _ => descend(device, name, depth - 1)?,
            }
            assert_pattern(&array, depth);
            Ok(())
        })
    }
    let name = context.name("scope");
    descend(device, &name, 3)?;
    assert_eq!(busy_and_idle(&name), (0, 0), "all four were of the invalidated generation");
    descend(device, &name, 3)?;
    assert_eq!(supplied(&stats_of(&name)), 8);
    Ok(())
}

/// The invalidation of another scope does not touch a nested scope, wherever it is made and carried out.
pub fn a_nested_scope_is_untouched<D: Device>(device: &D, context: &Context) -> Result<()> {
    let (outer, inner) = (context.name("outer"), context.name("inner"));
    cache_scope!(name = &outer, {
        touch::<u8, D>(device, 64)?;
        cache_scope!(name = &inner, {
            touch::<u8, D>(device, 64)?;
            assert_eq!(elsewhere(|| invalidate(&outer)).bytes, 64);
            touch::<u8, D>(device, 64)?;
        });
        touch::<u8, D>(device, 64)?;
    });
    assert_eq!((hits_and_supplies(&outer), hits_and_supplies(&inner)), ((0, 2), (1, 1)));
    Ok(())
}
