//! Arrays as values: allocated by their device, compared, iterated over, kept across a panic, and in structs without bounds.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::panic::{RefUnwindSafe, UnwindSafe, catch_unwind};

use gpucache::device::{Device, Host};
use gpucache::{Allocate, Array, Element};

/// A struct of a program that says nothing of its arrays' elements and devices.
struct Pair<T, D> {
    first: Array<T, D>,
    second: Array<T, D>,
}

impl<T: Element, D: Device> Pair<T, D> {
    fn new(device: &D) -> gpucache::Result<Self> {
        Ok(Pair { first: device.zeros(2)?, second: device.zeros([3])? })
    }
}

#[test]
fn a_struct_needs_no_bounds() {
    let pair = Pair::<f32, _>::new(&Host::new()).unwrap();
    assert_eq!(pair.first.len() + pair.second.len(), 5);
}

#[test]
fn equal_are_those_of_one_shape_and_the_same_elements() {
    let host = Host::new();
    let array = Array::from_slice(&host, [2, 3], &[1, 2, 3, 4, 5, 6]).unwrap();
    assert_eq!(array, array.clone());
    assert_ne!(array, array.clone().reshape([3, 2]).unwrap());
    assert_ne!(array, Array::full(&host, [2, 3], 1).unwrap());
    assert_eq!(host.zeros::<u8>([0, 3]).unwrap(), host.zeros([0, 3]).unwrap());
    assert_ne!(Array::full(&host, 1, f32::NAN).unwrap(), Array::full(&host, 1, f32::NAN).unwrap());
}

#[test]
fn a_comparison_waits_for_work_on_either_side() {
    let (one, other) = (Host::new_stream().unwrap(), Host::new_stream().unwrap());
    let (mut late, ready) = (one.zeros::<u32>(100).unwrap(), Array::full(&other, 100, 7u32).unwrap());
    one.launch(&mut late, |late| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        late.fill(7);
    })
    .unwrap();
    assert_eq!(ready, late);
}

#[test]
fn loops_go_over_the_elements() {
    let mut array = Array::full(&Host::new_stream().unwrap(), [2, 2], 1u32).unwrap();
    for value in &mut array {
        *value += 1;
    }
    let mut sum = 0;
    for value in &array {
        sum += value;
    }
    assert_eq!(sum, 8);
}

fn survives_panics<T: UnwindSafe + RefUnwindSafe>() {}

#[test]
fn arrays_and_devices_survive_panics() {
    survives_panics::<(Array<f32, Host>, Host)>();
    #[cfg(feature = "cuda")]
    survives_panics::<(Array<f32, gpucache::prelude::Cuda>, gpucache::prelude::Cuda)>();

    let host = Host::new();
    let array = Array::full(&host, 4, 2u32).unwrap();
    let caught = catch_unwind(|| {
        let inner = gpucache::cache_scope!(survives, { host.zeros::<u32>(4).unwrap() });
        assert_eq!(inner, array, "never equal");
    });
    assert!(caught.is_err());
    assert_eq!(gpucache::cache_scope!(survives, { Array::full(&host, 4, 2u32).unwrap() }), array);
    assert_eq!(gpucache::stats("survives").unwrap().hits, 1);
}

#[test]
fn a_device_says_what_it_cannot_allocate() {
    assert!(Host::new().zeros::<f64>(usize::MAX).unwrap_err().is_invalid_shape());
    // SAFETY: there is no element to write.
    #[allow(unsafe_code)]
    let empty = unsafe { Host::new().uninit::<f32>(0) };
    assert!(empty.unwrap().is_empty());
}
