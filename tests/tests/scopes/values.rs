//! Arrays as values: allocated by their device, compared, iterated over, kept across a panic, and in structs without bounds.

use std::panic::{RefUnwindSafe, UnwindSafe, catch_unwind};

use gpucache::device::{Device, Host};
use gpucache::{Allocate, Array, Element};

/// A struct of a program without bounds on its arrays' elements and devices.
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
fn host_arrays_show_their_values() {
    let host = Host::new();
    let show = |array: &dyn std::fmt::Debug| format!("{array:?}");
    let numbered = |shape: &[usize]| {
        let values: Vec<usize> = (0..shape.iter().product()).collect();
        Array::from_slice(&host, shape, &values).unwrap()
    };
    assert_eq!(show(&numbered(&[])), "Array<usize>[] on host: 0");
    assert_eq!(show(&numbered(&[3])), "Array<usize>[3] on host: [0, 1, 2]");
    assert_eq!(show(&numbered(&[2, 1, 2])), "Array<usize>[2, 1, 2] on host: [[[0, 1]], [[2, 3]]]");
    assert_eq!(show(&numbered(&[2, 0, 2])), "Array<usize>[2, 0, 2] on host: []");
    assert_eq!(show(&host.zeros::<u8>([usize::MAX, 0]).unwrap()), format!("Array<u8>[{}, 0] on host: []", usize::MAX));
    let floats = Array::from_slice(&host, 2, &[0.123, 4.0]).unwrap();
    assert_eq!(format!("{floats:.1?}"), "Array<f64>[2] on host: [0.1, 4.0]");
    assert!(show(&numbered(&[500])).contains(" 250, "), "500 are shown");
    assert_eq!(show(&numbered(&[501])), "Array<usize>[501] on host: [0, 1, 2, 3, 4, .., 496, 497, 498, 499, 500]");
    let images = show(&numbered(&[50, 10, 14]));
    assert_eq!(images.matches("..").count(), 1 + 6 * 10, "three images at either end, and all of their rows");
    assert!(images.contains("[[[0, 1, 2, 3, 4, .., 9, 10, 11, 12, 13], [14, "), "{images}");
    let unit = host.zeros::<[u8; 0]>(usize::MAX).unwrap();
    assert_eq!(show(&unit).matches("[], [], [], [], [], .., [").count(), 1);
}

#[test]
fn values_of_a_stream_are_shown_while_it_rests() {
    let stream = Host::new_stream().unwrap();
    let mut array = Array::full(&stream, 2, 5u8).unwrap();
    assert_eq!(&array[..], [5; 2]);
    assert!(format!("{array:?}").ends_with(": [5, 5]"), "{array:?}");
    let (open, opened) = std::sync::mpsc::channel::<()>();
    stream.launch(&mut array, move |values| values[0] = opened.recv().map_or(6, |()| 0)).unwrap();
    assert!(format!("{array:?}").ends_with(&format!("on {stream:?}")), "{array:?}");
    drop(open);
    stream.synchronize().unwrap();
    assert!(format!("{array:?}").ends_with(": [6, 5]"), "{array:?}");
    stream.launch(&mut array, |_| panic!("on purpose")).unwrap();
    stream.synchronize().unwrap_err();
    assert!(format!("{array:?}").ends_with(&format!("on {stream:?}")), "{array:?}");
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
    // SAFETY: the array has no elements.
    #[allow(unsafe_code)]
    let empty = unsafe { Host::new().uninit::<f32>(0) };
    assert!(empty.unwrap().is_empty());
}
