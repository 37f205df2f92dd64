//! Shapes: every rank, every way to write one, and no overflow.
#![allow(unsafe_code)]

use gpucache::device::Device;
use gpucache::{Array, Element, Result, Shape, cache_scope, offload::Placed, uncached};

use super::{Context, assert_pattern, hits_and_supplies, memory, pattern, stats_of, touch};

/// From a single element without dimensions to ten dimensions.
pub fn shapes_of_every_rank<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    for round in 0..2 {
        cache_scope!(name = &name, {
            for rank in 0..=10 {
                let dims: Vec<usize> = (0..rank).map(|dim| 1 + dim % 3).collect();
                let len = dims.iter().product();
                let array = Array::from_slice(device, &dims, &pattern(rank as u32, len))?;
                assert_eq!((array.shape(), array.len(), array.byte_len()), (&dims[..], len, 4 * len));
                assert_pattern(&array, rank as u32);
            }
        });
        assert_eq!(hits_and_supplies(&name), (11 * round, 11));
    }
    Ok(())
}

/// A number, an array, a slice, a vector, and references to them are the same shape.
#[allow(clippy::needless_borrows_for_generic_args)]
pub fn all_kinds_of_shapes<D: Device>(device: &D, context: &Context) -> Result<()> {
    fn is_served<D: Device>(device: &D, shape: impl Shape, dims: &[usize]) -> Result<()> {
        let array = Array::<u8, D>::zeros(device, shape)?;
        assert_eq!(array.shape(), dims);
        Ok(())
    }
    let name = context.name("scope");
    cache_scope!(name = &name, {
        is_served(device, 6, &[6])?;
        is_served(device, &6, &[6])?;
        is_served(device, [6], &[6])?;
        is_served(device, [2, 3], &[2, 3])?;
        is_served(device, &[2, 3], &[2, 3])?;
        is_served(device, &[2, 3][..], &[2, 3])?;
        is_served(device, vec![2, 3], &[2, 3])?;
        is_served(device, &vec![2, 3], &[2, 3])?;
        is_served(device, [], &[])?;
    });
    assert_eq!(hits_and_supplies(&name), (6, 3));
    Ok(())
}

/// Arrays without elements can be made, read, written, copied, and given another shape.
pub fn no_elements<D: Device>(device: &D, context: &Context) -> Result<()> {
    let before = memory(device);
    cache_scope!(name = context.name("scope"), {
        for shape in [vec![0], vec![3, 0], vec![0, usize::MAX], vec![usize::MAX, 3, 0], vec![0; 9]] {
            let mut array = Array::<f64, D>::full(device, &shape, 1.0)?;
            assert!(array.is_empty() && array.shape() == shape && array.byte_len() == 0);
            array.copy_from_slice(&[])?;
            assert_eq!(array.to_vec()?, [0.0; 0]);
            assert_eq!(array.try_clone()?.shape(), shape);
            assert_eq!(Array::<f64, D>::from_slice(device, &shape, &[])?.shape(), shape);
            assert_eq!(array.reshape([0, 7])?.shape(), [0, 7]);
        }
    });
    assert_eq!(memory(device), before);
    Ok(())
}

/// Empty arrays of all types come in turn, however each was used.
pub fn no_elements_of_any_type<D: Device>(device: &D, context: &Context) -> Result<()> {
    let (auto, keyed) = (context.name("auto"), context.name("keyed"));
    for _ in 0..6 {
        cache_scope!(name = &auto, { empty_in_turn(device)? });
        cache_scope!(name = &keyed, recycle = "keyed", { empty_in_turn(device)? });
        cache_scope!(name = &keyed, recycle = "off", { empty_in_turn(device)? });
        uncached!({ empty_in_turn(device)? });
    }
    Ok(())
}

fn empty_in_turn<D: Device>(device: &D) -> Result<()> {
    empty::<u8, D>(device, 1)?;
    empty::<f64, D>(device, 1.0)?;
    empty::<bool, D>(device, true)?;
    empty::<u16, D>(device, 1)?;
    // Between arrays with bytes, so that the order of the entry has both.
    touch::<u32, D>(device, 1000)?;
    empty::<i64, D>(device, 1)
}

/// All operations of an empty array.
fn empty<T: Element + PartialEq, D: Device>(device: &D, value: T) -> Result<()> {
    for dims in [&[0][..], &[3, 0, 5], &[0, usize::MAX]] {
        // SAFETY: the array has no elements.
        let mut array = unsafe { Array::<T, D>::uninit(device, dims)? };
        let (zeros, full) = (Array::<T, D>::zeros(device, dims)?, Array::full(device, dims, value)?);
        array.copy_from_slice(&[])?;
        array.announce_write(device)?;
        zeros.announce_read(device)?;
        assert_eq!((full.shape(), full.byte_len(), full.to_vec()?), (dims, 0, vec![]));
        let copy = Array::from_slice(device, dims, &[] as &[T])?.try_clone()?;
        assert_eq!(copy.reshape([0, 7])?.shape(), [0, 7]);
        let mut placed = Placed::new(array)?;
        placed.fetch_mut()?.copy_from_slice(&[])?;
        assert!(placed.fetch()?.is_empty() && placed.try_clone()?.to_vec()?.is_empty());
        assert_eq!(placed.into_array()?.shape(), dims);
    }
    Ok(())
}

/// A shape whose bytes fit into no address space is a typed error, before any device is asked.
pub fn overflow_is_an_error<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device);
    let half = 1 << (usize::BITS / 2);
    cache_scope!(name = &name, {
        for shape in [
            vec![usize::MAX],
            vec![half, half],
            vec![usize::MAX / 8 + 1],
            vec![usize::MAX / 16 + 1],
            vec![2; 80],
            vec![isize::MAX as usize],
        ] {
            let error = Array::<u64, D>::zeros(device, &shape).unwrap_err();
            assert!(error.is_invalid_shape() && !error.is_out_of_memory(), "{shape:?}: {error}");
            assert!(Array::full(device, &shape, [0u8; 9]).unwrap_err().is_invalid_shape());
            assert!(Array::from_slice(device, &shape, &[0u64]).unwrap_err().is_invalid_shape());
            assert!(Array::full(device, 1, 0u64)?.reshape(&shape).unwrap_err().is_invalid_shape());
        }
    });
    assert_eq!(memory(device).allocations, before.allocations + 1, "the arrays that were to be reshaped");
    assert_eq!(stats_of(&name).busy_blocks, 0);
    Ok(())
}

/// Shapes with more dimensions than a key keeps in place are distinguished all the same.
pub fn high_ranks_are_recycled<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let shape = |odd: usize| -> [usize; 9] { std::array::from_fn(|dim| if dim == odd { 2 } else { 1 }) };
    for round in 0..3 {
        cache_scope!(name = &name, {
            for odd in 0..9 {
                assert_eq!(Array::<u8, D>::zeros(device, shape((odd + round) % 9))?.shape(), shape((odd + round) % 9));
            }
            touch::<u8, D>(device, 2)?;
        });
        assert_eq!(hits_and_supplies(&name), (10 * round as u64, 10));
    }
    Ok(())
}
