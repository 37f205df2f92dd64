//! A warm scope allocates nothing, neither on the device nor on the host's heap.
//!
//! The allocator of this program counts per thread, so that the test harness does not disturb it.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::hint::black_box;

use gpucache::device::Device;
use gpucache::prelude::Host;
use gpucache::{Array, Element, Result, cache_scope, stats};
use gpucache_tests::counting::{Counting, allocations, allocations_of, frees};
use gpucache_tests::faulty::Call;
use gpucache_tests::{Faulty, supplied, turn};

const ENTRIES: u64 = 1000;
const SHAPES: usize = 64;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Shape number `place`, written into `dims`. The shapes have all ranks from 1 to 8, and no two are equal.
fn shape(place: usize, dims: &mut [usize; 8]) -> &[usize] {
    let rank = 1 + place % 8;
    dims.fill(1);
    dims[0] = 2 + place / 8;
    &dims[..rank]
}

/// Arrays that are alive at once. They are dropped in an order that depends on `turn`.
struct Held<T: Element, D: Device>([Option<Array<T, D>>; SHAPES]);

impl<T: Element, D: Device> Held<T, D> {
    fn new() -> Self {
        Held([const { None }; SHAPES])
    }

    fn drop_in_turn(mut self, turn: usize) {
        // 37 and 64 have no common factor, so every place occurs once.
        (0..SHAPES).for_each(|place| self.0[(place * 37 + turn) % SHAPES] = None);
    }
}

/// One entry: 64 shapes are allocated and held, some are dropped and allocated again at once, with inner scopes and all kinds of arrays.
fn entry<D: Device>(device: &D, names: &[&str; 2], turn: usize) -> Result<()> {
    let mut dims = [1; 8];
    cache_scope!(name = names[0], {
        let mut held = Held::<f32, D>::new();
        for place in 0..SHAPES {
            let shape = shape(place, &mut dims);
            drop(Array::<u8, D>::full(device, shape, 7)?);
            held.0[place] = Some(match place % 3 {
                0 => Array::zeros(device, shape)?,
                1 => Array::full(device, shape, 1.5)?,
                // SAFETY: nobody reads the elements.
                _ => unsafe { Array::uninit(device, shape)? },
            });
            if place % 8 == 0 {
                sub_scope(device, names[1], turn)?;
            }
        }
        let clone = held.0[10].as_ref().map(Array::try_clone).transpose()?;
        let reshaped = clone.map(|clone| clone.reshape([1, 3])).transpose()?;
        held.drop_in_turn(turn);
        drop(reshaped);
    });
    Ok(())
}

fn sub_scope<D: Device>(device: &D, name: &str, turn: usize) -> Result<()> {
    cache_scope!(name = name, {
        let first = Array::<[f32; 3], D>::zeros(device, [4, 1, 1, 1, 1, 1, 1, 2])?;
        cache_scope!(name = name, { drop(Array::<u16, D>::zeros(device, 100 + turn % 3)?) });
        let escaped = cache_scope!(name = name, recycle = "keyed", { Array::<u16, D>::zeros(device, [])? });
        drop((first, escaped));
        drop(Array::from_slice(device, 4, &[1.0f64; 4])?);
    });
    Ok(())
}

/// Warms a scope up, and counts the allocations of its later entries.
fn warm_entries_allocate_nothing<D: Device>(device: &D, names: &[&str; 2]) {
    (0..5).for_each(|turn| entry(device, names, turn).unwrap());
    let before = (device.memory(), names.map(|name| stats(name).unwrap()));
    let made = allocations_of(|| {
        for turn in 0..ENTRIES as usize {
            entry(device, names, turn).unwrap();
        }
    });
    let after = names.map(|name| stats(name).unwrap());
    assert_eq!(made, 0, "on the host's heap");
    assert_eq!(device.memory(), before.0, "from the device");
    let served = [2 * SHAPES as u64 + 1, 8 * 4].map(|arrays| arrays * ENTRIES);
    for place in 0..2 {
        assert_eq!(supplied(&after[place]), supplied(&before.1[place]));
        assert_eq!(after[place].hits, before.1[place].hits + served[place]);
        assert_eq!((after[place].busy_blocks, after[place].idle_blocks), (0, before.1[place].idle_blocks));
    }
}

#[test]
fn the_allocator_counts() {
    let _turn = turn();
    // The compiler may leave out an allocation that nobody sees.
    assert_eq!(allocations_of(|| drop(black_box(Box::new(1)))), 1);
    assert_eq!(allocations_of(|| drop(black_box(vec![0u8; 10]))), 1);
    let device = Faulty::new();
    assert!(allocations_of(|| drop(Array::<u8, _>::zeros(&device, 10).unwrap())) >= 2, "a block and its record");
}

#[test]
fn on_the_host() {
    let _turn = turn();
    warm_entries_allocate_nothing(&Host::new(), &["warm on the host", "below warm on the host"]);
}

/// Each iteration has 120 layers, whose arrays wait for the way back.
#[test]
fn iterations_of_a_loop_in_one_entry() {
    let _turn = turn();
    const LAYERS: usize = 120;
    let (device, name) = (Host::new(), "warm loop");
    let mut kept: Vec<Array<u8, Host>> = Vec::with_capacity(LAYERS);
    let mut iteration = || {
        for layer in 0..LAYERS {
            kept.push(Array::zeros(&device, 1000 + layer).unwrap());
            drop(Array::<u8, _>::zeros(&device, 300).unwrap());
        }
        while let Some(layer) = kept.pop() {
            drop(Array::<u8, _>::zeros(&device, 400).unwrap());
            drop(layer);
        }
    };
    let made = cache_scope!(name = name, {
        (0..40).for_each(|_| iteration());
        allocations_of(|| (0..ENTRIES).for_each(|_| iteration()))
    });
    let stats = stats(name).unwrap();
    assert!(stats.plan.iterations > ENTRIES && stats.plan.loops == 1, "{stats}");
    assert_eq!(made, 0, "on the host's heap");
}

#[test]
fn on_a_device_that_counts_all_calls() {
    let _turn = turn();
    let device = Faulty::new();
    let names = ["warm", "below warm"];
    (0..5).for_each(|turn| entry(&device, &names, turn).unwrap());
    let before = device.calls();
    warm_entries_allocate_nothing(&device, &names);
    let after = device.calls();
    for call in [Call::Allocate, Call::Free, Call::Read, Call::Synchronize] {
        assert_eq!(after.of(call), before.of(call), "{call:?}");
    }
    // The calls that `zeros`, `full`, `from_slice` and `try_clone` need, and no others.
    let entries = ENTRIES + 5;
    let filled = SHAPES as u64 + (SHAPES as u64 * 2).div_ceil(3) + 8 * 3;
    let done = [Call::Fill, Call::Write, Call::Copy].map(|call| after.of(call) - before.of(call));
    assert_eq!(done, [filled * entries, 8 * entries, entries]);
    for name in names {
        let _ = gpucache::invalidate(name);
    }
    device.assert_clean();
}

/// Allocations of the driver itself do not count; those of this crate for a GPU do.
#[cfg(feature = "cuda")]
#[test]
fn on_a_gpu() {
    if let Some(gpu) = gpucache_tests::gpu::Gpu::get() {
        warm_entries_allocate_nothing(&gpu.cuda, &["warm on a GPU", "below warm on a GPU"]);
    }
}

/// A program may ask for the handle of its stream again in each entry.
#[cfg(feature = "cuda")]
#[test]
fn the_handle_of_a_known_stream() {
    let Some(gpu) = gpucache_tests::gpu::Gpu::get() else { return };
    let stream = gpu.new_stream();
    let step = || {
        cache_scope!("known stream", {
            let handle = gpucache::prelude::Cuda::with_stream(stream.stream().clone()).unwrap();
            drop(Array::<u8, _>::zeros(&handle, 4096).unwrap());
        });
    };
    (0..20).for_each(|_| step());
    assert_eq!(allocations_of(step), 0);
}

/// A scope that keeps nothing also keeps nothing on the host, and does not touch other scopes' memory.
#[test]
fn a_scope_that_keeps_nothing_does_not_grow() {
    let _turn = turn();
    let device = gpucache::device::Virtual::unchecked(1 << 40);
    let pair = || cache_scope!("keeps nothing", recycle = "off", { drop(Array::<u8, _>::zeros(&device, 4096)) });
    cache_scope!("fills the range", {
        let _many = [(); 20].map(|()| Array::<u8, _>::zeros(&device, 4 << 20).unwrap());
    });
    pair();
    let (allocated, freed, held) = (allocations(), frees(), device.memory());
    (0..ENTRIES).for_each(|_| pair());
    let live = (allocations() - allocated) as i64 - (frees() - freed) as i64;
    assert!(live.abs() < 16, "{live} host allocations are left of {ENTRIES} entries");
    assert_eq!(
        device.memory().times_given_back(),
        held.times_given_back() + ENTRIES,
        "its own frees, and nothing else"
    );
    let _ = gpucache::invalidate("fills the range");
}
