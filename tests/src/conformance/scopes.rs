//! The innermost scope serves, however it was entered, until it is left.

use gpucache::device::Device;
use gpucache::{Array, Result, cache_scope, uncached};

use crate::supplied;

use super::{Context, hits_and_supplies, memory, stats_of, touch};

/// An allocation counts only in the innermost scope.
pub fn the_innermost_name_serves<D: Device>(device: &D, context: &Context) -> Result<()> {
    let (outer, inner) = (context.name("outer"), context.name("inner"));
    cache_scope!(name = &outer, {
        cache_scope!(name = &inner, { touch::<f32, D>(device, 8)? });
    });
    assert_eq!((hits_and_supplies(&outer), hits_and_supplies(&inner)), ((0, 0), (0, 1)));
    assert_eq!((stats_of(&outer).entries, stats_of(&inner).entries), (1, 1));
    Ok(())
}

/// After the inner scope is left, the outer one serves as before, from its own blocks.
pub fn the_outer_scope_serves_again<D: Device>(device: &D, context: &Context) -> Result<()> {
    let (outer, inner) = (context.name("outer"), context.name("inner"));
    cache_scope!(name = &outer, {
        touch::<f32, D>(device, 8)?;
        cache_scope!(name = &inner, { touch::<f32, D>(device, 8)? });
        touch::<f32, D>(device, 8)?;
    });
    assert_eq!((hits_and_supplies(&outer), hits_and_supplies(&inner)), ((1, 1), (0, 1)));
    Ok(())
}

/// A name entered inside itself uses the same cache. Leaving the inner entry does not leave the outer one.
pub fn one_name_nests_in_itself<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        touch::<f32, D>(device, 8)?;
        cache_scope!(name = &name, { touch::<f32, D>(device, 8)? });
        touch::<f32, D>(device, 8)?;
    });
    let stats = stats_of(&name);
    assert_eq!((stats.entries, stats.hits, supplied(&stats)), (2, 2, 1));
    Ok(())
}

/// All levels of a recursive function share one cache. Memory that a deeper level dropped serves the next level.
pub fn recursion_reuses_what_was_dropped<D: Device>(device: &D, context: &Context) -> Result<()> {
    fn descend<D: Device>(device: &D, name: &str, depth: u32) -> Result<()> {
        cache_scope!(name = name, {
            let _held = Array::<f32, D>::zeros(device, 16)?;
            if depth > 0 { descend(device, name, depth - 1) } else { Ok(()) }
        })
    }
    let name = context.name("scope");
    descend(device, &name, 4)?;
    assert_eq!(hits_and_supplies(&name), (0, 5));
    descend(device, &name, 4)?;
    assert_eq!(hits_and_supplies(&name), (5, 5));
    Ok(())
}

/// `uncached!` hides all scopes for a block. Its arrays are freed when they are dropped.
pub fn uncached_is_plain<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device);
    cache_scope!(name = &name, {
        let array = uncached!({ Array::<u8, D>::zeros(device, 1000)? });
        assert_eq!(memory(device).bytes, before.bytes + 1000);
        drop(array);
        assert_eq!(memory(device).bytes, before.bytes);
        uncached!({
            cache_scope!(name = &name, { touch::<u8, D>(device, 1000)? });
            touch::<u8, D>(device, 1000)?;
        });
        touch::<u8, D>(device, 1000)?;
    });
    assert_eq!(hits_and_supplies(&name), (1, 1));
    assert_eq!(memory(device).allocations, before.allocations + 3);
    Ok(())
}

/// Outside of scopes an array is a plain allocation, before any scope was entered and after.
pub fn outside_all_scopes_is_plain<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device);
    for round in 1..=2 {
        let array = Array::<u8, D>::zeros(device, 1000)?;
        assert_eq!(memory(device).bytes, before.bytes + 1000);
        drop(array);
        assert_eq!(memory(device).bytes, before.bytes);
        assert_eq!(memory(device).allocations, before.allocations + round);
        cache_scope!(name = &name, {});
    }
    assert_eq!(hits_and_supplies(&name), (0, 0));
    Ok(())
}

/// `#[cache_scope]` has the same effect as `cache_scope!`.
pub fn attributes_are_scopes<D: Device>(device: &D, context: &Context) -> Result<()> {
    #[gpucache::prelude::cache_scope(name = name)]
    fn keyed<D: Device>(device: &D, name: &str) -> Result<Array<f32, D>> {
        Array::full(device, [2, 2], 1.0)
    }
    #[gpucache::prelude::cache_scope(name = name, recycle = "off")]
    fn off<D: Device>(device: &D, name: &str) -> Result<Array<f32, D>> {
        Array::full(device, [2, 2], 1.0)
    }
    let (first, second) = (context.name("keyed"), context.name("off"));
    for _ in 0..3 {
        assert_eq!(keyed(device, &first)?.to_vec()?, [1.0; 4]);
        assert_eq!(off(device, &second)?.to_vec()?, [1.0; 4]);
    }
    assert_eq!((hits_and_supplies(&first), hits_and_supplies(&second)), ((2, 1), (0, 3)));
    Ok(())
}

/// The end of a scope, `?`, `return`, `break` and a panic all leave it.
pub fn every_way_out_leaves<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let by_question_mark = || -> Result<()> {
        cache_scope!(name = &name, { touch::<u64, D>(device, usize::MAX)? });
        Ok(())
    };
    #[allow(clippy::needless_return)]
    let by_return = || cache_scope!(name = &name, { return touch::<u64, D>(device, 1) });
    let by_panic = || cache_scope!(name = &name, { std::panic::resume_unwind(Box::new("on purpose")) });
    assert!(by_question_mark().unwrap_err().is_invalid_shape());
    by_return()?;
    let panicked: Result<(), _> = std::panic::catch_unwind(std::panic::AssertUnwindSafe(by_panic));
    assert!(panicked.is_err());
    'out: {
        cache_scope!(name = &name, { break 'out });
    }
    cache_scope!(name = &name, {});
    touch::<u64, D>(device, 1)?;
    let stats = stats_of(&name);
    assert_eq!((stats.entries, stats.hits, supplied(&stats)), (5, 0, 1), "the last allocation was outside");
    Ok(())
}

/// Guards that are dropped in another order than they were made each leave their own entry.
pub fn guards_go_in_any_order<D: Device>(device: &D, context: &Context) -> Result<()> {
    use gpucache::{Recycle::Keyed, Scope, ScopeGuard};
    let (a, b) = (context.name("a"), context.name("b"));
    let (first, second, plain) =
        (Scope::new(&a).recycle(Keyed).enter(), Scope::new(&b).recycle(Keyed).enter(), ScopeGuard::outside());
    drop(first);
    touch::<u8, D>(device, 64)?;
    assert_eq!((hits_and_supplies(&a), hits_and_supplies(&b)), ((0, 0), (0, 0)), "`uncached` is innermost");
    drop(plain);
    touch::<u8, D>(device, 64)?;
    assert_eq!((hits_and_supplies(&a), hits_and_supplies(&b)), ((0, 0), (0, 1)), "`b` is");
    let third = Scope::new(&a).recycle(Keyed).enter();
    drop(second);
    touch::<u8, D>(device, 64)?;
    drop(third);
    touch::<u8, D>(device, 64)?;
    assert_eq!((hits_and_supplies(&a), hits_and_supplies(&b)), ((0, 1), (0, 1)), "`a` was, then none");
    cache_scope!(name = &a, { touch::<u8, D>(device, 64)? });
    cache_scope!(name = &b, { touch::<u8, D>(device, 64)? });
    assert_eq!((hits_and_supplies(&a), hits_and_supplies(&b)), ((1, 1), (1, 1)));
    Ok(())
}

/// `recycle = "off"`: every allocation asks the device, and every drop gives the memory back at once.
pub fn off_keeps_nothing<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    cache_scope!(name = &name, recycle = "off", {
        for _ in 0..3 {
            let array = Array::<u8, D>::zeros(device, 300)?;
            assert_eq!(memory(device).bytes, before + 300);
            drop(array);
            assert_eq!(memory(device).bytes, before);
        }
    });
    let stats = stats_of(&name);
    assert_eq!((stats.hits, supplied(&stats), stats.idle_blocks, stats.busy_blocks), (0, 3, 0, 0));
    Ok(())
}

/// One name with entries that keep blocks and entries that do not: a block follows the entry that allocated it.
pub fn off_and_keyed_share_a_name<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, { touch::<u8, D>(device, 300)? });
    cache_scope!(name = &name, recycle = "off", {
        touch::<u8, D>(device, 300)?;
        assert_eq!(stats_of(&name).idle_blocks, 1, "the kept block is neither used nor lost");
        let dropped_later = Array::<u8, D>::zeros(device, 300)?;
        cache_scope!(name = &name, {
            touch::<u8, D>(device, 300)?;
            drop(dropped_later);
        });
    });
    let stats = stats_of(&name);
    assert_eq!((stats.hits, supplied(&stats), stats.idle_blocks, stats.idle_bytes), (1, 3, 1, 300));
    Ok(())
}

/// Computed names are equal if their texts are, however they were made.
pub fn names_are_equal_by_text<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = name.clone(), { touch::<u8, D>(device, 1)? });
    cache_scope!(name = name.as_str(), { touch::<u8, D>(device, 1)? });
    cache_scope!(name = std::borrow::Cow::Borrowed(name.as_str()), { touch::<u8, D>(device, 1)? });
    cache_scope!(name = format!("{}{}", &name[..5], &name[5..]), { touch::<u8, D>(device, 1)? });
    assert_eq!(hits_and_supplies(&name), (3, 1));
    Ok(())
}
