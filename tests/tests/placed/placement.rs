//! Where placed arrays rest: as the innermost scope with a placement says, or else as the process says.

use gpucache::device::Virtual;
use gpucache::{
    Scope, cache_scope,
    offload::{Placed, Placement, set_default_placement},
    prelude::*,
    uncached,
};
use gpucache_tests::turn;

fn zeros(device: &Virtual) -> Placed<u8, Virtual> {
    Placed::zeros(device, 1000).unwrap()
}

fn placement() -> Placement {
    zeros(&Virtual::new(1 << 30)).placement()
}

#[test]
fn the_innermost_scope_that_says_something_decides() {
    let _turn = turn();
    assert_eq!(placement(), Placement::Auto);
    cache_scope!(outer, placement = "host", {
        assert_eq!(placement(), Placement::Host);
        cache_scope!(silent, { assert_eq!(placement(), Placement::Host) });
        cache_scope!(inner, placement = "device", {
            assert_eq!(placement(), Placement::Device);
            cache_scope!(outer, { assert_eq!(placement(), Placement::Device) });
            cache_scope!(outer, placement = "auto", { assert_eq!(placement(), Placement::Auto) });
            uncached!({
                assert_eq!(placement(), Placement::Auto, "it is outside of all scopes");
                cache_scope!(silent, { assert_eq!(placement(), Placement::Auto) });
            });
        });
        assert_eq!(placement(), Placement::Host);
        let other = std::thread::spawn(placement).join().unwrap();
        assert_eq!(other, Placement::Auto, "another thread is in no scope");
    });
    assert_eq!(placement(), Placement::Auto);
}

#[test]
fn values_say_it_and_guards_go_in_any_order() {
    let _turn = turn();
    let (host, device) = (Scope::new("placement: host").placement(Placement::Host), Scope::new("placement: device"));
    assert_ne!(host, Scope::new("placement: host"));
    let device = device.placement(Placement::Device).owned();
    let (outer, inner) = (host.enter(), device.enter());
    assert_eq!(placement(), Placement::Device);
    drop(outer);
    assert_eq!(placement(), Placement::Device);
    drop(inner);
    assert_eq!(placement(), Placement::Auto);
    assert_eq!(host.run(placement), Placement::Host);
}

#[test]
fn what_is_placed_on_the_host_leaves_now_and_zeros_behind_their_next_use() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    cache_scope!(load, placement = "host", {
        let array = uncached!({ device.zeros::<u8>(1000).unwrap() });
        let placed = Placed::new(array).unwrap();
        assert_eq!((device.stats().offload.resident_bytes, device.stats().offload.bytes_out), (0, 1000));
        let copy = placed.try_clone().unwrap();
        assert_eq!((copy.placement(), device.stats().offload.resident_bytes), (Placement::Host, 0));
        let mut zeros = zeros(&device);
        assert_eq!(device.stats().offload.resident_bytes, 1000);
        drop(zeros.fetch_mut().unwrap());
        assert_eq!(device.stats().offload.resident_bytes, 0);
        // Once the array has its own placement, the scopes' placement does not matter.
        placed.choose_placement(Placement::Auto);
        assert_eq!(placed.try_clone().unwrap().placement(), Placement::Auto);
    });
}

/// The placement at the end of a use counts.
#[test]
fn a_placement_that_changes_during_a_use_holds_behind_it() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let (placed, resident) = (zeros(&device), || device.stats().offload.resident_bytes);
    placed.set_placement(Placement::Host).unwrap();
    let here = placed.fetch().unwrap();
    placed.set_placement(Placement::Device).unwrap();
    drop(here);
    assert_eq!(resident(), 1000);
    placed.set_placement(Placement::Host).unwrap();
    assert_eq!(resident(), 0);
}

#[test]
fn outside_of_such_scopes_the_process_decides() {
    let _turn = turn();
    let before = zeros(&Virtual::new(1 << 30));
    set_default_placement(Placement::Device);
    assert_eq!((placement(), before.placement()), (Placement::Device, Placement::Auto));
    assert_eq!(std::thread::spawn(placement).join().unwrap(), Placement::Device);
    cache_scope!(silent, { assert_eq!(placement(), Placement::Device) });
    cache_scope!(said, placement = "auto", { assert_eq!(placement(), Placement::Auto) });
    set_default_placement(Placement::Auto);
    assert_eq!(placement(), Placement::Auto);
}
