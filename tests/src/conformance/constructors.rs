//! The ways to make an array, and the array's values, on fresh memory and on recycled memory.
#![allow(unsafe_code)]

use std::fmt::Debug;

use float8::{F8E4M3, F8E5M2};
use gpucache::device::Device;
use gpucache::{Array, Element, Result, cache_scope};
use half::{bf16, f16};
use num_complex::{Complex32, Complex64};

use super::{Context, hits_and_supplies, memory, pattern, patterned, touch};

/// `zeros` writes zeros, whatever the memory was used for before.
pub fn zeros_on_recycled_memory<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        for _ in 0..3 {
            let mut array = Array::<u32, D>::zeros(device, 1001)?;
            assert_eq!(array.to_vec()?, [0; 1001]);
            array.copy_from_slice(&pattern(1, 1001))?;
        }
    });
    assert_eq!(hits_and_supplies(&name), (2, 1));
    assert_eq!(Array::<f64, D>::zeros(device, 5)?.to_vec()?, [0.0; 5], "outside a scope as well");
    Ok(())
}

fn full_of<T: Element + PartialEq + Debug, D: Device>(device: &D, values: [T; 2]) -> Result<()> {
    for value in values {
        for len in [1, 2, 3, 64, 1000, 1025] {
            let array = Array::full(device, len, value)?;
            assert_eq!(array.to_vec()?, vec![value; len], "{len} of {value:?}");
            assert_eq!(array.byte_len(), len * size_of::<T>());
        }
    }
    Ok(())
}

/// `full` repeats elements of 1, 2, 3, 4, 6, 8, 12, 16, 20 and 32 bytes.
pub fn full_of_every_size<D: Device>(device: &D, context: &Context) -> Result<()> {
    cache_scope!(name = context.name("scope"), {
        full_of(device, [0x5Au8, 0])?;
        full_of(device, [-7i8, 1])?;
        full_of(device, [0x1234u16, 0x1212])?;
        full_of(device, [-2i16, 300])?;
        full_of(device, [f16::from_f32(1.5), f16::ONE])?;
        full_of(device, [bf16::from_f32(-2.75), bf16::ONE])?;
        full_of(device, [F8E4M3::from_f32(1.5), F8E4M3::ONE])?;
        full_of(device, [F8E5M2::from_f32(-2.5), F8E5M2::ONE])?;
        full_of(device, [Complex32::new(1.5, -0.5), Complex32::ONE])?;
        full_of(device, [Complex64::new(-2.0, 0.25), Complex64::I])?;
        full_of(device, [1.5f32, -0.0])?;
        full_of(device, [0x1234_5678u32, 0x1234_1234])?;
        full_of(device, [-1i32, 77])?;
        full_of(device, [std::f64::consts::PI, 1.0])?;
        full_of(device, [0x0102_0304_0506_0708u64, 0x0102_0304_0102_0304])?;
        full_of(device, [i64::MIN, -1])?;
        full_of(device, [usize::MAX, 3])?;
        full_of(device, [u128::MAX / 3, 1 << 100])?;
        full_of(device, [i128::MIN, -5])?;
        full_of(device, [[1u8, 2, 3], [9, 9, 9]])?;
        full_of(device, [[1u16, 2, 3], [4, 5, 6]])?;
        full_of(device, [[1.0f32, 2.0, 3.0], [0.0; 3]])?;
        full_of(device, [[1u32, 2, 3, 4, 5], [1, 1, 1, 1, 2]])?;
        full_of(device, [[[1.0f64, 2.0], [3.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]]])?;
    });
    Ok(())
}

/// `full` leaves nothing of the memory's earlier contents.
pub fn full_on_recycled_memory<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        for value in [7u32, 0x0707_0707, 0, u32::MAX, 0x0001_0002] {
            assert_eq!(Array::full(device, 333, value)?.to_vec()?, [value; 333]);
        }
    });
    assert_eq!(hits_and_supplies(&name), (4, 1));
    Ok(())
}

/// Contents that are copied to an array come back, for types of all sizes.
pub fn from_slice_round_trip<D: Device>(device: &D, context: &Context) -> Result<()> {
    fn round_trip<T: Element + PartialEq + Debug, D: Device>(device: &D, make: impl Fn(u8) -> T) -> Result<()> {
        for len in [1usize, 2, 7, 255, 4097] {
            let values: Vec<T> = (0..len).map(|place| make(place as u8)).collect();
            assert_eq!(Array::from_slice(device, len, &values)?.to_vec()?, values);
        }
        Ok(())
    }
    cache_scope!(name = context.name("scope"), {
        for _ in 0..2 {
            round_trip(device, |n| n)?;
            round_trip(device, |n| n % 3 == 0)?;
            round_trip(device, |n| f16::from_f32(n.into()))?;
            round_trip(device, |n| bf16::from_f32(n.into()))?;
            // Below the bits of NaN, which equals nothing.
            round_trip(device, |n| F8E4M3::from_bits(n % 0x7f))?;
            round_trip(device, |n| F8E5M2::from_bits(n % 0x7d))?;
            round_trip(device, |n| Complex32::new(n.into(), -1.0))?;
            round_trip(device, |n| Complex64::new(0.5, n.into()))?;
            round_trip(device, |n| f32::from(n) / 3.0)?;
            round_trip(device, |n| f64::from(n) / 3.0)?;
            round_trip(device, |n| i128::from(n) - 5)?;
            round_trip(device, |n| [f32::from(n), 1.0, 2.0])?;
        }
    });
    Ok(())
}

/// A plain struct of a user, after the one unsafe line that the trait needs.
pub fn users_element<D: Device>(device: &D, context: &Context) -> Result<()> {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Particle {
        place: [f32; 3],
        kind: u32,
    }
    // SAFETY: 16 bytes without padding, and all bytes zero are a valid particle.
    unsafe impl Element for Particle {}

    let particle = |n: u32| Particle { place: [n as f32, 0.5, -1.0], kind: n };
    let values: Vec<_> = (0..99).map(particle).collect();
    let name = context.name("scope");
    cache_scope!(name = &name, {
        assert_eq!(Array::from_slice(device, [9, 11], &values)?.to_vec()?, values);
        assert_eq!(Array::full(device, [9, 11], particle(3))?.to_vec()?, [particle(3); 99]);
        assert_eq!(Array::<Particle, D>::zeros(device, 2)?.to_vec()?, [Particle { place: [0.0; 3], kind: 0 }; 2]);
    });
    assert_eq!(hits_and_supplies(&name), (1, 2));
    Ok(())
}

/// Zeros are the zeros of other crates' numbers. Complex numbers are their parts in order, as kernels have them.
pub fn numbers_of_other_crates<D: Device>(device: &D, _: &Context) -> Result<()> {
    fn zeros_of<T: Element + PartialEq + Debug, D: Device>(device: &D, zero: T, bytes: usize) -> Result<()> {
        let array = Array::<T, D>::zeros(device, [3, 5])?;
        assert_eq!((array.to_vec()?, array.byte_len()), (vec![zero; 15], 15 * bytes));
        Ok(())
    }
    zeros_of(device, f16::ZERO, 2)?;
    zeros_of(device, bf16::ZERO, 2)?;
    zeros_of(device, F8E4M3::ZERO, 1)?;
    zeros_of(device, F8E5M2::ZERO, 1)?;
    zeros_of(device, Complex32::ZERO, 8)?;
    zeros_of(device, Complex64::ZERO, 16)?;
    zeros_of(device, num_complex::Complex::new(f16::ZERO, f16::ZERO), 4)?;
    assert_eq!(align_of::<Complex64>(), align_of::<[f64; 2]>());
    assert_eq!(std::mem::offset_of!(Complex64, im), 8);
    Ok(())
}

/// `bool` is an element of one byte.
pub fn bools<D: Device>(device: &D, _: &Context) -> Result<()> {
    let values: Vec<bool> = (0..100).map(|place| place % 7 < 3).collect();
    assert_eq!(Array::from_slice(device, 100, &values)?.to_vec()?, values);
    assert_eq!(Array::full(device, 3, true)?.to_vec()?, [true; 3]);
    assert_eq!(Array::<bool, D>::zeros(device, 3)?.to_vec()?, [false; 3]);
    Ok(())
}

/// `uninit` takes the same blocks as the other constructors, and costs no fill.
pub fn uninit_that_is_written<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        touch::<u32, D>(device, 40)?;
        // SAFETY: `copy_from_slice` writes every element before any is read.
        let mut array = unsafe { Array::<u32, D>::uninit(device, 40)? };
        array.copy_from_slice(&pattern(5, 40))?;
        assert_eq!(array.to_vec()?, pattern(5, 40));
        drop(array);
        drop(patterned(device, 40, 6)?);
    });
    assert_eq!(hits_and_supplies(&name), (2, 1));
    Ok(())
}

/// Elements of 0 bytes are counted all the same.
pub fn elements_without_bytes<D: Device>(device: &D, context: &Context) -> Result<()> {
    let before = memory(device);
    cache_scope!(name = context.name("scope"), {
        for _ in 0..2 {
            let mut array = Array::full(device, [2, 3], [0u32; 0])?;
            array.copy_from_slice(&[[]; 6])?;
            assert_eq!((array.to_vec()?, array.byte_len()), (vec![[0u32; 0]; 6], 0));
            assert_eq!(array.try_clone()?.len(), 6);
        }
    });
    assert_eq!(memory(device), before);
    Ok(())
}
