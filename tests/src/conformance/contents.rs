//! The operations on an array: overwrite it, copy it, give it another shape; and the operations that are refused.

use gpucache::device::Device;
use gpucache::{Array, Result, cache_scope};

use crate::supplied;

use super::{Context, assert_pattern, busy_and_idle, hits_and_supplies, pattern, patterned, stats_of, touch};

/// All elements are replaced, and no others are touched.
pub fn copy_from_slice_overwrites<D: Device>(device: &D, context: &Context) -> Result<()> {
    cache_scope!(name = context.name("scope"), {
        let neighbours = [patterned(device, 100, 1)?, patterned(device, 100, 2)?];
        let mut array = patterned(device, 100, 3)?;
        for seed in 10..15 {
            array.copy_from_slice(&pattern(seed, 100))?;
            assert_pattern(&array, seed);
        }
        neighbours.iter().zip(1..).for_each(|(neighbour, seed)| assert_pattern(neighbour, seed));
    });
    Ok(())
}

/// A clone has its own memory, from the innermost scope, wherever the original came from.
pub fn clones_are_separate<D: Device>(device: &D, context: &Context) -> Result<()> {
    let (first, second) = (context.name("first"), context.name("second"));
    let mut original = cache_scope!(name = &first, { patterned(device, 100, 1)? }).reshape([20, 5])?;
    let clone = cache_scope!(name = &second, { original.try_clone()? });
    original.copy_from_slice(&pattern(2, 100))?;
    assert_pattern(&clone, 1);
    assert_eq!(clone.shape(), [20, 5]);
    assert_eq!((hits_and_supplies(&first), hits_and_supplies(&second)), ((0, 1), (0, 1)));
    drop(original);
    assert_pattern(&clone.clone(), 1);
    assert_eq!(Array::<u32, D>::zeros(device, [0, 5])?.try_clone()?.shape(), [0, 5]);
    Ok(())
}

/// Another shape, the same elements, no allocation.
pub fn reshape_keeps_the_elements<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        let mut array = patterned(device, 60, 1)?;
        for shape in [vec![3, 20], vec![2, 2, 3, 5], vec![1; 9].into_iter().chain([60]).collect(), vec![60]] {
            array = array.reshape(&shape)?;
            assert_eq!((array.shape(), array.len()), (&shape[..], 60));
            assert_pattern(&array, 1);
        }
        let single = Array::full(device, 1, 5u32)?.reshape([])?;
        assert_eq!((single.shape(), single.to_vec()?), (&[][..], vec![5]));
    });
    assert_eq!(supplied(&stats_of(&name)), 2);
    Ok(())
}

/// When a block serves its next request, it has its own shape again, and is found only under that shape.
pub fn reshape_does_not_outlive_the_array<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let long = [1, 2, 1, 3, 1, 2, 1, 1];
    cache_scope!(name = &name, {
        drop(patterned(device, 12, 1)?.reshape([3, 4])?);
        drop(Array::<u32, D>::zeros(device, long)?.reshape(12)?);
        assert_eq!(Array::<u32, D>::zeros(device, 12)?.shape(), [12]);
        assert_eq!(Array::<u32, D>::zeros(device, long)?.shape(), long);
        assert_eq!(hits_and_supplies(&name), (2, 2));
        touch::<u32, D>(device, 12)?;
        assert_eq!(Array::<u32, D>::zeros(device, [3, 4])?.shape(), [3, 4]);
        assert_eq!(hits_and_supplies(&name), (3, 3), "[3, 4] is a key of its own");
    });
    Ok(())
}

/// Contents and shapes of other lengths are refused, and change nothing.
pub fn wrong_lengths_are_errors<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        let mut array = patterned(device, 10, 1)?;
        for len in [0, 1, 9, 11, 1000] {
            let values = pattern(0, len);
            assert!(array.copy_from_slice(&values).unwrap_err().is_invalid_shape());
            assert!(Array::from_slice(device, 10, &values).unwrap_err().is_invalid_shape());
            assert!(
                Array::from_slice(device, [10, len], &values).is_err_and(|error| error.is_invalid_shape()) || len == 0
            );
        }
        assert_pattern(&array, 1);
        assert!(Array::<u32, D>::from_slice(device, [], &[]).unwrap_err().is_invalid_shape());
        assert!(array.reshape([3, 3]).unwrap_err().is_invalid_shape());
    });
    assert_eq!(busy_and_idle(&name), (0, 2), "an array that cannot be reshaped is dropped, `[10, 0]` was made");
    Ok(())
}

/// An error says what happened, and keeps no memory busy.
pub fn errors_leave_nothing_behind<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        for _ in 0..3 {
            let error = Array::from_slice(device, [2, 2], &[1.0f32; 3]).unwrap_err();
            assert!(error.is_invalid_shape() && !error.is_deferred() && !error.is_out_of_memory());
            assert!(error.to_string().contains("[2, 2]") && error.to_string().contains('3'), "{error}");
        }
    });
    let stats = stats_of(&name);
    assert_eq!((stats.hits, supplied(&stats), stats.busy_blocks, stats.idle_blocks), (0, 0, 0, 0));
    Ok(())
}

/// Arrays may change threads, and may be read by several.
pub fn arrays_are_send_and_sync<D: Device>(device: &D, context: &Context) -> Result<()> {
    fn is_both<T: Send + Sync>(_: &T) {}
    let array = cache_scope!(name = context.name("scope"), { patterned(device, 100, 1)? });
    is_both(&array);
    std::thread::scope(|threads| {
        let readers = [(); 3].map(|()| threads.spawn(|| assert_pattern(&array, 1)));
        readers.into_iter().for_each(|reader| reader.join().expect("the contents are right"));
    });
    Ok(())
}
