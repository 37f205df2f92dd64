//! Arrays that leave their scope. They stay busy until they are dropped, and nothing overwrites them meanwhile.

use std::any::Any;
use std::sync::Mutex;

use gpucache::device::Device;
use gpucache::{Array, Result, cache_scope, invalidate};

use super::{Context, assert_pattern, busy_and_idle, hits_and_supplies, patterned};

const LEN: usize = 50;

/// Allocates as many arrays of the same key as could collide with an escaped array.
fn churn<D: Device>(device: &D, name: &str) -> Result<()> {
    cache_scope!(name = name, {
        let arrays = (0..5).map(|seed| patterned(device, LEN, 1000 + seed)).collect::<Result<Vec<_>>>()?;
        arrays.iter().zip(1000..).for_each(|(array, seed)| assert_pattern(array, seed));
    });
    Ok(())
}

/// Leaves as the value of the scope.
pub fn by_return<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let escaped = cache_scope!(name = &name, { patterned(device, LEN, 1)? });
    churn(device, &name)?;
    assert_pattern(&escaped, 1);
    assert_eq!(busy_and_idle(&name), (1, 5));
    Ok(())
}

/// Leaves through an outer variable, when `?` ends the scope.
pub fn by_question_mark<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let mut escaped = None;
    let mut fail = || -> Result<()> {
        cache_scope!(name = &name, {
            escaped = Some(patterned(device, LEN, 2)?);
            Array::<u64, D>::zeros(device, usize::MAX)?;
        });
        Ok(())
    };
    assert!(fail().unwrap_err().is_invalid_shape());
    churn(device, &name)?;
    assert_pattern(&escaped.expect("set before the failure"), 2);
    Ok(())
}

/// Leaves through an outer variable, when a panic ends the scope. Arrays that the panic dropped are recycled.
pub fn by_panic<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let escaped = Mutex::new(None);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache_scope!(name = &name, {
            *escaped.lock().unwrap() = Some(patterned(device, LEN, 3).unwrap());
            let _unwound = patterned(device, LEN, 4);
            std::panic::resume_unwind(Box::new("on purpose"));
        })
    }));
    assert!(unwound.is_err());
    assert_eq!(busy_and_idle(&name), (1, 1));
    churn(device, &name)?;
    assert_pattern(&escaped.into_inner().unwrap().expect("set before the panic"), 3);
    Ok(())
}

/// Leaves as the value of a `break` out of the scope.
pub fn by_break<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let mut seed = 0;
    let escaped = loop {
        cache_scope!(name = &name, {
            seed += 1;
            let array = patterned(device, LEN, seed)?;
            if seed == 5 {
                break array;
            }
        });
    };
    churn(device, &name)?;
    assert_pattern(&escaped, 5);
    Ok(())
}

/// An invalidation leaves the array as it is, also if it is made inside the scope.
pub fn through_invalidation<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let escaped = cache_scope!(name = &name, {
        let escaped = patterned(device, LEN, 6)?;
        assert_eq!(invalidate(&name).busy_blocks, 1);
        churn(device, &name)?;
        escaped
    });
    assert_eq!(invalidate(&name).busy_blocks, 1);
    churn(device, &name)?;
    assert_pattern(&escaped, 6);
    drop(escaped);
    churn(device, &name)
}

/// The next entry of its scope gets other memory.
pub fn through_reentry<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let mut escaped = Vec::new();
    for seed in 0..6 {
        escaped.push(cache_scope!(name = &name, { patterned(device, LEN, seed)? }));
    }
    escaped.iter().zip(0..).for_each(|(array, seed)| assert_pattern(array, seed));
    // A scope that plans takes memory for several arrays at once.
    let (hits, supplies) = hits_and_supplies(&name);
    assert!(hits + supplies == 6 && supplies > 0);
    Ok(())
}

/// Leaves the levels of a recursion, up and down.
pub fn through_recursion<D: Device>(device: &D, context: &Context) -> Result<()> {
    fn descend<D: Device>(device: &D, name: &str, depth: u32) -> Result<Vec<Array<u32, D>>> {
        cache_scope!(name = name, {
            let before = patterned(device, LEN, 2 * depth)?;
            let mut deeper = if depth > 0 { descend(device, name, depth - 1)? } else { Vec::new() };
            assert_pattern(&before, 2 * depth);
            drop(before);
            deeper.push(patterned(device, LEN, 2 * depth + 1)?);
            Ok(deeper)
        })
    }
    let name = context.name("scope");
    for _ in 0..2 {
        let escaped = descend(device, &name, 4)?;
        churn(device, &name)?;
        escaped.iter().zip(0..).for_each(|(array, depth)| assert_pattern(array, 2 * depth + 1));
    }
    Ok(())
}

/// State that every entry replaces, as a training step does with its parameters.
pub fn from_a_scope_that_is_entered_in_a_loop<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let mut state = patterned(device, LEN, 0)?;
    for step in 1..20 {
        state = cache_scope!(name = &name, {
            let _scratch = patterned(device, LEN, 777)?;
            let next = patterned(device, LEN, step)?;
            assert_pattern(&state, step - 1);
            next
        });
        assert_pattern(&state, step);
    }
    let misses = hits_and_supplies(&name).1;
    assert!(
        (3..=6).contains(&misses),
        "two states that take turns, the scratch, and a state anew beside a plan: {misses}"
    );
    Ok(())
}

/// Leaves into a static that is never dropped.
pub fn into_a_static<D: Device>(device: &D, context: &Context) -> Result<()> {
    static KEPT: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());
    let name = context.name("scope");
    let array = cache_scope!(name = &name, { patterned(device, LEN, 8)? });
    context.keeps(array.byte_len());
    let mut kept = KEPT.lock().unwrap();
    kept.push(Box::new(array));
    let place = kept.len() - 1;
    churn(device, &name)?;
    assert_eq!(invalidate(&name).busy_blocks, 1);
    churn(device, &name)?;
    assert_pattern(kept[place].downcast_ref::<Array<u32, D>>().expect("the array"), 8);
    Ok(())
}

/// Many arrays of few keys, dropped in an order of their own.
pub fn many_at_once<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let mut escaped: Vec<(u32, Array<u32, D>)> = Vec::new();
    for seed in 0..60u32 {
        let len = 10 + (seed as usize * 7) % 4;
        escaped.push((seed, cache_scope!(name = &name, { patterned(device, len, seed)? })));
        if seed % 3 == 2 {
            let (seed, array) = escaped.swap_remove((seed as usize * 5) % escaped.len());
            assert_pattern(&array, seed);
        }
    }
    escaped.iter().for_each(|(seed, array)| assert_pattern(array, *seed));
    Ok(())
}

/// Once the array is dropped, on any thread, its block serves its scope again.
pub fn a_dropped_escape_serves_again<D: Device>(device: &D, context: &Context) -> Result<()> {
    let (name, other) = (context.name("scope"), context.name("other"));
    let escaped = cache_scope!(name = &name, { patterned(device, LEN, 9)? });
    drop(escaped);
    let escaped = cache_scope!(name = &name, { patterned(device, LEN, 10)? });
    assert_eq!(hits_and_supplies(&name), (1, 1));
    cache_scope!(name = &other, { drop(escaped) });
    assert_eq!((busy_and_idle(&name), busy_and_idle(&other)), ((0, 1), (0, 0)), "home, not where it was dropped");
    cache_scope!(name = &name, { drop(patterned(device, LEN, 11)?) });
    assert_eq!(hits_and_supplies(&name), (2, 1));
    Ok(())
}
