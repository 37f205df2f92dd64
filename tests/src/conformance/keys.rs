//! The key that a block and a request must share; the block then serves the request.

use gpucache::device::Device;
use gpucache::{Array, Result, cache_scope};

use super::{Context, busy_and_idle, hits_and_supplies, memory, stats_of, touch};
use crate::{Faulty, supplied};

/// A dropped array's block serves the next allocation of its key within the same entry.
pub fn a_drop_serves_the_next_allocation<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        for _ in 0..5 {
            touch::<f32, D>(device, 100)?;
        }
        assert_eq!(hits_and_supplies(&name), (4, 1));
    });
    cache_scope!(name = &name, { touch::<f32, D>(device, 100)? });
    assert_eq!(hits_and_supplies(&name), (5, 1));
    Ok(())
}

/// A request that no idle block fits takes new memory, as large as asked.
pub fn a_miss_allocates<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device);
    cache_scope!(name = &name, {
        let first = Array::<u8, D>::zeros(device, 100)?;
        let second = Array::<u8, D>::zeros(device, 100)?;
        assert_eq!(memory(device).bytes, before.bytes + 200);
        drop((first, second));
    });
    assert_eq!(memory(device).allocations, before.allocations + 2);
    assert_eq!(memory(device).bytes, before.bytes + 200, "kept for the next entry");
    assert_eq!(hits_and_supplies(&name), (0, 2));
    Ok(())
}

/// Types of the same size do not share blocks.
pub fn the_dtype_must_be_equal<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        touch::<f32, D>(device, 64)?;
        touch::<u32, D>(device, 64)?;
        touch::<i32, D>(device, 64)?;
        touch::<[u8; 4], D>(device, 64)?;
        touch::<[u16; 2], D>(device, 64)?;
        assert_eq!(hits_and_supplies(&name), (0, 5));
        touch::<[u8; 4], D>(device, 64)?;
        touch::<f32, D>(device, 64)?;
        assert_eq!(hits_and_supplies(&name), (2, 5));
    });
    Ok(())
}

/// Shapes of as many elements do not share blocks.
pub fn the_shape_must_be_equal<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let shapes: [&[usize]; 6] = [&[12], &[3, 4], &[4, 3], &[12, 1], &[1, 12], &[2, 2, 3]];
    cache_scope!(name = &name, {
        for round in 0..2 {
            for shape in shapes {
                let array = Array::<f32, D>::zeros(device, shape)?;
                assert_eq!((array.shape(), array.len()), (shape, 12));
            }
            assert_eq!(hits_and_supplies(&name), (6 * round, 6));
        }
    });
    Ok(())
}

/// One scope serves several devices, each from its own blocks.
pub fn the_device_must_be_equal<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let other = Faulty::new();
    let stream = other.another_stream();
    cache_scope!(name = &name, {
        touch::<f32, D>(device, 10)?;
        touch::<f32, Faulty>(&other, 10)?;
        touch::<f32, Faulty>(&stream, 10)?;
        assert_eq!(hits_and_supplies(&name), (0, 3));
        touch::<f32, Faulty>(&stream, 10)?;
        touch::<f32, Faulty>(&other, 10)?;
        touch::<f32, D>(device, 10)?;
        assert_eq!(hits_and_supplies(&name), (3, 3));
    });
    assert_eq!(other.live(), [40, 40]);
    assert_eq!(gpucache::invalidate(&name).bytes, 120);
    other.assert_clean();
    Ok(())
}

/// Handles of one device are one device.
pub fn a_clone_of_a_device_is_the_same<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        let array = Array::<f32, D>::zeros(&device.clone(), 10)?;
        let handle = array.device().clone();
        drop(array);
        touch::<f32, D>(&handle, 10)?;
        touch::<f32, D>(device, 10)?;
    });
    assert_eq!(hits_and_supplies(&name), (2, 1));
    Ok(())
}

/// A key has as many blocks as were alive at once, and all of them serve.
pub fn as_many_blocks_as_were_alive<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    for round in 0..3 {
        cache_scope!(name = &name, {
            let arrays = (0..7).map(|_| Array::<u8, D>::zeros(device, 33)).collect::<Result<Vec<_>>>()?;
            assert_eq!((busy_and_idle(&name), arrays.len()), ((7, 0), 7));
            assert_eq!(hits_and_supplies(&name), (7 * round, 7));
        });
        assert_eq!(busy_and_idle(&name), (0, 7));
    }
    Ok(())
}

/// The order in which blocks return does not matter.
pub fn the_block_dropped_last_is_not_needed<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        for start in 0..4 {
            let mut arrays = Vec::new();
            for _ in 0..4 {
                arrays.push(Array::<u16, D>::zeros(device, [3, 3])?);
            }
            arrays.rotate_left(start);
        }
    });
    assert_eq!(hits_and_supplies(&name), (12, 4));
    Ok(())
}

/// Entries that request the same keys in another order are hits all the same.
pub fn order_of_requests_does_not_matter<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let lens = [1usize, 2, 3, 5, 8, 13, 21, 34];
    for round in 0..8 {
        cache_scope!(name = &name, recycle = "range", {
            for place in 0..8 {
                touch::<u8, D>(device, lens[(place * 3 + round) % 8])?;
                touch::<u16, D>(device, lens[(place * 5 + round) % 8])?;
            }
        });
        assert_eq!(hits_and_supplies(&name), (16 * round as u64, 16));
    }
    Ok(())
}

/// An array without elements takes part like any other, without memory.
pub fn arrays_without_elements_are_kept_too<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device);
    cache_scope!(name = &name, {
        touch::<f32, D>(device, 0)?;
        touch::<f32, D>(device, 0)?;
    });
    let stats = stats_of(&name);
    assert_eq!((stats.hits, supplied(&stats), stats.idle_blocks, stats.idle_bytes), (1, 1, 1, 0));
    assert_eq!(memory(device), before);
    Ok(())
}
