//! Linux grants more memory than the machine has, and kills processes that use it. So a request that the machine cannot serve must
//! fail wherever it is made, with an error that names its bytes. Later requests must succeed.
//!
//! No test touches memory before it has seen that such a request fails.
#![allow(unsafe_code, clippy::unwrap_used, clippy::panic)]

use gpucache::device::{Device, Host, Virtual};
use gpucache::{Array, Error, Result, invalidate};
use gpucache::{Recycle, Scope, ScopeGuard};
use gpucache_tests::turn;

const POLICIES: [Recycle; 4] = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];

/// Where a request is made: outside scopes, in `uncached!`, or in a scope.
#[derive(Clone, Copy, Debug)]
enum Place {
    Outside,
    Uncached,
    Scope(Recycle),
}

impl Place {
    fn all() -> impl Iterator<Item = Place> {
        [Place::Outside, Place::Uncached].into_iter().chain(POLICIES.map(Place::Scope))
    }

    fn enter(self) -> Vec<ScopeGuard> {
        match self {
            Place::Outside => Vec::new(),
            Place::Uncached => vec![Scope::new("overcommitted").recycle(Recycle::Auto).enter(), ScopeGuard::outside()],
            Place::Scope(recycle) => vec![Scope::new("overcommitted").recycle(recycle).enter()],
        }
    }
}

fn uninit<D: Device>(device: &D, bytes: usize) -> Result<Array<u8, D>> {
    // SAFETY: nobody reads the elements.
    unsafe { Array::uninit(device, bytes) }
}

fn names_the_request(error: Option<Error>, bytes: usize, what: &str) {
    let error = error.unwrap_or_else(|| panic!("{what}: {bytes} bytes are granted"));
    assert!(error.is_out_of_memory(), "{what}: {error}");
    assert!(error.to_string().contains(&bytes.to_string()), "{what}: a request of {bytes} bytes, {error}");
}

/// Checks that all of these requests fail, and that small ones before and after them succeed.
fn refuses(device: &Host, place: Place) {
    const TEBIBYTE: usize = 1 << 40;
    let what = format!("{place:?} on {device:?}");
    let _guards = place.enter();
    let small = |value| {
        let array = Array::full(device, 4096, value).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(array.to_vec().unwrap(), [value; 4096], "{what}");
        array
    };
    let _kept = small(1u8);
    names_the_request(uninit(device, TEBIBYTE).err(), TEBIBYTE, &what);
    drop(small(2));
    names_the_request(Array::<u8, _>::zeros(device, [1 << 20, 1 << 20]).err(), TEBIBYTE, &what);
    names_the_request(Array::full(device, TEBIBYTE, 7u8).err(), TEBIBYTE, &what);
    names_the_request(Array::full(device, [1 << 8, 1 << 30], 0.5f32).err(), TEBIBYTE, &what);
    drop(small(3));
    // More than the address space.
    names_the_request(uninit(device, TEBIBYTE << 20).err(), TEBIBYTE << 20, &what);
    drop(small(4));
}

/// Tries all places, and reports at the end which of them failed.
fn everywhere(places: impl Iterator<Item = Place>, act: impl Fn(Place)) {
    let failed: Vec<Place> = places
        .filter(|&place| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(place))).is_err())
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn more_than_there_is_on_the_host() {
    let _turn = turn();
    everywhere(Place::all(), |place| refuses(&Host::new(), place));
}

#[test]
#[cfg(target_os = "linux")]
fn more_than_there_is_on_a_stream_of_the_host() {
    let _turn = turn();
    everywhere(Place::all(), |place| refuses(&Host::new_stream().unwrap(), place));
}

/// Requests that fit one by one but not together. Scopes share a range, which knows how much it holds.
#[cfg(target_os = "linux")]
fn adds_up(device: &Host, recycle: Recycle) {
    use gpucache_tests::process::of_machine;
    let what = format!("{recycle:?} on {device:?}");
    let (memory, swap) = (of_machine("MemTotal:").unwrap(), of_machine("SwapTotal:").unwrap_or(0));
    let (piece, most) = (memory / 16, memory * 3 / 2 + swap);
    let guard = Scope::new("adds up").recycle(recycle).enter();
    let mut held = Vec::new();
    let mut granted = 0;
    let refused = loop {
        // Each size is new, so that no earlier allocation can serve it.
        let bytes = piece as usize + 4096 * held.len();
        match uninit(device, bytes) {
            Ok(array) => held.push(array),
            Err(error) => break Some((error, bytes)),
        }
        granted += bytes as u64;
        if granted > most {
            break None;
        }
    };
    drop(held);
    drop(guard);
    let _ = invalidate("adds up");
    let (error, bytes) =
        refused.unwrap_or_else(|| panic!("{what}: {granted} bytes are granted, of {memory} that there are"));
    names_the_request(Some(error), bytes, &what);
    assert!(granted >= memory / 4, "{what}: only {granted} bytes are granted, of {memory} that there are");
    let _guard = Scope::new("adds up").recycle(recycle).enter();
    assert_eq!(Array::full(device, 100, 5u8).unwrap().to_vec().unwrap(), [5; 100], "{what}");
}

#[cfg(target_os = "linux")]
fn in_ranges() -> impl Iterator<Item = Recycle> {
    POLICIES.into_iter().filter(|recycle| *recycle != Recycle::Off)
}

#[test]
#[cfg(target_os = "linux")]
fn many_that_fit_add_up_on_the_host() {
    let _turn = turn();
    everywhere(in_ranges().map(Place::Scope), |place| match place {
        Place::Scope(recycle) => adds_up(&Host::new(), recycle),
        _ => unreachable!(),
    });
}

#[test]
#[cfg(target_os = "linux")]
fn many_that_fit_add_up_on_a_stream_of_the_host() {
    let _turn = turn();
    everywhere(in_ranges().map(Place::Scope), |place| match place {
        Place::Scope(recycle) => adds_up(&Host::new_stream().unwrap(), recycle),
        _ => unreachable!(),
    });
}

/// A copy to the host fails like any other request.
#[test]
fn a_copy_that_the_host_has_no_memory_for_is_an_error() {
    let array = uninit(&Virtual::new(1 << 48), 1 << 47).unwrap();
    let error = array.to_vec().unwrap_err();
    assert!(error.is_out_of_memory() && error.to_string().contains("128.00 TiB"), "{error}");
    // The machine's memory was looked at: Linux also grants memory that is in use, and kills the process that writes it.
    assert!(cfg!(not(target_os = "linux")) || error.to_string().contains("are available"), "{error}");
}

/// However the device is asked for a request, in pages or pieces, the error is about the request.
#[test]
fn errors_name_the_request_on_a_virtual_device() {
    const PAGE: usize = 2 << 20;
    everywhere(Place::all(), |place| {
        let device = Virtual::new(8 * PAGE);
        let what = format!("{place:?} on {device:?}");
        let _guards = place.enter();
        for bytes in [8 * PAGE + 1, 100 * PAGE + 12_345, 1 << 40] {
            names_the_request(uninit(&device, bytes).err(), bytes, &what);
            let held = uninit(&device, 3 * PAGE).unwrap();
            names_the_request(Array::<u8, _>::zeros(&device, bytes).err(), bytes, &what);
            // Most of the request would fit.
            names_the_request(uninit(&device, 6 * PAGE - 100).err(), 6 * PAGE - 100, &what);
            drop(held);
            drop(uninit(&device, 7 * PAGE).unwrap());
        }
    });
}
