//! Error messages: they say what happened, to which request and in which scope, and what to do.
#![allow(clippy::unwrap_used)]

use gpucache::device::{Device, Host, Virtual};
use gpucache::error::Bound;
use gpucache::offload::{Placed, Placement};
use gpucache::prelude::Allocate;
use gpucache::{Array, Error, Scope};
use gpucache_tests::faulty::{Call, Failure, Fault};
use gpucache_tests::{Faulty, turn};

const DROP: &str = "drop arrays or work in smaller pieces, then try again";

/// The error of an array of this many bytes in a scope.
fn refused<D: Device>(device: &D, scope: &str, bytes: usize) -> Error {
    Scope::new(scope).run(|| Array::<u8, D>::zeros(device, [2, bytes / 2]).unwrap_err())
}

#[test]
fn a_shortage_names_the_request_and_not_the_pages_that_were_missing() {
    let device = Virtual::new(8 << 20);
    let line = line!() + 1;
    let _kept = Scope::new("message: full").run(|| Array::<u8, _>::zeros(&device, 6 << 20).unwrap());
    let error = refused(&device, "message: full", 4 << 20);
    assert!(error.is_out_of_memory());
    let expected = "an array of u8 of shape [2, 2097152], 4194304 bytes (4.00 MiB) in the scope `message: full` could not be \
                    allocated: the virtual device has no 4.00 MiB left (6.00 MiB of 8.00 MiB are taken): ";
    let figures = "\nthe device's memory is 8.00 MiB\ngpucache reserves 6.00 MiB of the device in this process; \
                   0 bytes are in use outside of gpucache\n\
                   scopes and placed arrays share 6.00 MiB: 6.00 MiB in arrays and plans, 0 bytes idle, at most 0 bytes side by side\n  \
                   `message: full`: 6.00 MiB in use, 0 bytes idle\nrequested on stream ";
    let shortage = error.shortage().unwrap();
    let site = shortage.scope_site.unwrap();
    assert_eq!((site.file(), site.line()), (file!(), line));
    assert!(format!("{:?}", device.stream_handle()).contains(&format!("id: {},", shortage.stream)));
    let asked = format!("{}, in the scope of {site}", shortage.stream);
    assert_eq!(error.to_string(), format!("{expected}{DROP}{figures}{asked}"));
    let plain = Array::<f64, _>::zeros(&device, 1 << 19).unwrap_err().to_string();
    assert!(plain.starts_with("an array of f64 of shape [524288], 4194304 bytes (4.00 MiB) could not be"), "{plain}");
}

/// Tests both macros, a constant, and an owned scope. The line is that of the attribute, of the macro, or of `Scope::new`.
#[test]
fn an_error_tells_where_its_scope_is_in_the_program() {
    const STEP: Scope<'_> = Scope::new("message: constant");
    let step_line = line!() - 1;
    #[gpucache::prelude::cache_scope("message: attribute")]
    fn attribute(device: &Virtual) -> Error {
        device.zeros::<u8>(2 << 20).unwrap_err()
    }
    let attribute_line = line!() - 4;
    let device = Virtual::new(1 << 20);
    let block = gpucache::cache_scope!("message: block", { device.zeros::<u8>(2 << 20).unwrap_err() });
    let block_line = line!() - 1;
    let owned = Scope::new("message: owned").owned();
    let owned_line = line!() - 1;
    for (error, line) in [
        (attribute(&device), attribute_line),
        (block, block_line),
        (STEP.run(|| device.zeros::<u8>(2 << 20).unwrap_err()), step_line),
        (owned.run(|| device.zeros::<u8>(2 << 20).unwrap_err()), owned_line),
    ] {
        let site = error.shortage().unwrap().scope_site.unwrap();
        assert_eq!((site.file(), site.line()), (file!(), line), "{error}");
        let figures: Vec<_> = error.to_string().lines().skip(1).map(|line| line.chars().count()).collect();
        assert!(figures.len() < 24 && figures.iter().all(|&columns| columns <= 120), "{error}");
    }
    assert_eq!(device.zeros::<u8>(2 << 20).unwrap_err().shortage().unwrap().scope_site, None, "of no scope");
}

/// Dropping arrays cannot help such a request, wherever it fails.
#[test]
fn what_no_device_has_is_not_to_be_had_by_dropping_arrays() {
    let _turn = turn();
    let device = Virtual::new(8 << 20);
    for bytes in [16 << 20, 140 << 40, 500 << 40] {
        let error = refused(&device, "message: too large", bytes);
        let message = error.to_string();
        let message = message.lines().next().unwrap();
        assert!(error.is_out_of_memory() && !message.contains("drop"), "{message}");
        assert!(message.contains("8.00 MiB in all") && message.ends_with("check the shape or work in smaller pieces"));
    }
    if cfg!(target_os = "linux") {
        let host = Host::new();
        for error in
            [refused(&host, "message: too large", 140 << 40), Array::<u8, _>::zeros(&host, 140 << 40).unwrap_err()]
        {
            let message = error.to_string();
            let message = message.lines().next().unwrap();
            assert!(message.contains("less than the 140.00 TiB requested") && !message.contains("drop"), "{message}");
        }
    }
}

/// Each message names the limit or the placement that keeps placed arrays on the device.
#[test]
fn a_shortage_of_host_memory_names_its_limit() {
    const MIB: u64 = 1 << 20;
    let device = Virtual::new(1 << 40);
    device.set_limit(16 * MIB).unwrap();
    device.set_host_limit(MIB).unwrap();
    let zeros = || Placed::<f32, _>::zeros(&device, [1024, 1024]);
    let first = zeros().unwrap();
    let error = first.set_placement(Placement::Host).unwrap_err();
    let shortage = error.shortage().unwrap();
    assert_eq!((shortage.bound, shortage.most_bytes), (Bound::Host, Some(MIB)));
    let message = error.to_string();
    assert!(message.starts_with("the host memory of placed arrays has 1.00 MiB in all by its limit, "), "{message}");
    assert!(message.contains("raise the limit of host memory (`set_host_limit`) or work in smaller"), "{message}");
    assert!(!message.contains("of the device:") && !message.contains("limit of the device"), "{message}");

    first.choose_placement(Placement::Auto);
    let others: Vec<_> = (0..3).map(|_| zeros().unwrap()).collect();
    let error = zeros().unwrap_err();
    let of = |error: &Error| {
        let shortage = error.shortage().unwrap();
        [shortage.fetched_bytes, shortage.host_limited_bytes, shortage.device_placed_bytes].map(|bytes| bytes / MIB)
    };
    assert_eq!(of(&error), [0, 16, 0]);
    let message = error.to_string();
    let remedy =
        "raise the limit of host memory (`set_host_limit`), which keeps 16.00 MiB of placed arrays on the device";
    assert!(message.contains(remedy), "{message}");

    device.set_host_limit(gpucache::Limit::NONE).unwrap();
    others.iter().chain([&first]).for_each(|array| array.choose_placement(Placement::Device));
    let guard = first.fetch().unwrap();
    let error = zeros().unwrap_err();
    assert_eq!(of(&error), [4, 0, 12]);
    let message = error.to_string();
    assert!(message.contains("give arrays with the placement `Device` another one (12.00 MiB), "), "{message}");
    assert!(message.lines().all(|line| line.chars().count() < 500), "{message}");
    drop(guard);
}

#[test]
fn a_failure_of_the_device_names_the_request_unless_it_is_of_an_earlier_call() {
    let device = Faulty::new();
    device.arm(Fault::once(1, Failure::Device).only(Call::Allocate));
    let error = refused(&device, "message: failed", 100);
    assert!(error.is_device_failure() && !error.is_deferred());
    let expected = "an array of u8 of shape [2, 50], 100 bytes in the scope `message: failed` could not be allocated: an \
                    allocation failed on faulty (as the test asked): try again, and in a new process if this repeats";
    assert_eq!(error.to_string(), expected);
    device.arm(Fault::once(1, Failure::Device).only(Call::Free));
    drop(Array::<u8, _>::zeros(&device, 1).unwrap());
    let error = refused(&device, "message: failed", 100);
    assert!(error.is_deferred() && !error.to_string().contains("array"), "{error}");
    device.disarm();
}

/// If a cache served one scope and then another one, the message names the second scope.
#[test]
fn the_scope_is_the_innermost_one() {
    let device = Virtual::new(1 << 20);
    let message = Scope::new("message: outer").run(|| refused(&device, "message: inner", 4 << 20)).to_string();
    assert!(message.contains("`message: inner`"), "{message}");
    for number in 0..2000 {
        let name = format!("message: {number}");
        let message = refused(&device, &name, 4 << 20).to_string();
        assert!(message.contains(&format!("`{name}`")), "{message}");
    }
}

/// With names and shapes of any length the message has few lines, and only the first one is prose.
#[test]
fn long_names_and_shapes_fit_a_screen() {
    let _turn = turn();
    let device = Virtual::new(8 << 20);
    let names: Vec<String> = (0..9).map(|number| format!("{}message: long {number}", "a line\n".repeat(500))).collect();
    let held: Vec<_> = names.iter().map(|name| Scope::new(name).run(|| device.zeros::<u8>(1000).unwrap())).collect();
    let shape: Vec<usize> = [2; 24].into_iter().chain([1; 300]).collect();
    let text = Scope::new(&names[0]).run(|| device.zeros::<u8>(&*shape).unwrap_err()).to_string();
    assert!(text.lines().count() < 12, "{text}");
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 120), "{text}");
    assert!(text.lines().next().is_some_and(|line| line.chars().count() < 500), "{text}");
    drop(held);
    names.iter().for_each(|name| _ = gpucache::invalidate(name));
}
