//! Tests of memory that is reserved, as blocks see it, and of panics on the owner's side (the crate has no known ones).

use std::any::TypeId;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::block::Block;
use super::graph_memory::GraphMemory;
use super::owner::{Cache, Owner};
use super::policy::{Recycle, Terms};
use crate::device::{Stream, Virtual};
use crate::home::Visit;
use crate::range::{DeviceRange, WaitFor};
use crate::record::Request;

const BYTES: usize = 2 << 20;

fn new(stream: &Stream) -> Block {
    Block::allocate(
        stream,
        &Request { dtype: TypeId::of::<u8>(), type_name: "u8", dims: &[BYTES], bytes: BYTES, site: None },
    )
    .unwrap()
}

fn held(device: &Virtual) -> usize {
    DeviceRange::of(device.stream_handle()).unwrap().trim(0, WaitFor::Nothing).unwrap();
    device.stream_handle().meter().held() as usize
}

#[test]
fn what_is_reserved_serves_its_reservation_alone() {
    let device = Virtual::new(64 * BYTES);
    let stream = device.stream_handle();
    let reservation = GraphMemory::begin(stream).unwrap();
    assert!(GraphMemory::begin(stream).is_err_and(|error| error.is_unavailable()));
    let first = new(stream).address();
    let again = new(stream);
    assert_eq!(again.address(), first, "dropped within, it serves again");
    let other = new(stream);
    reservation.close();
    drop(again);
    // The block's stream is a handle for others now.
    let outside = [new(stream), new(other.stream())];
    assert!(outside.iter().all(|block| block.address() != first && block.stream().id() == stream.id()));
    drop(outside);
    assert_eq!(held(&device), 2 * BYTES, "what is reserved is no free memory");
    drop(reservation);
    // Both reservations use the same queue, so the second one can use at once what the first one freed.
    let next = GraphMemory::begin(stream).unwrap();
    assert_eq!(new(stream).address(), first);
    drop(next);
    assert_eq!(held(&device), BYTES, "one is alive");
    drop(other);
    assert_eq!(held(&device), 0);
}

#[test]
fn idle_memory_beside_reserved_memory_serves_everybody() {
    let device = Virtual::new(64 * BYTES);
    let stream = device.stream_handle();
    let reservation = GraphMemory::begin(stream).unwrap();
    let reserved = [new(stream), new(stream)];
    reservation.close();
    let outside = [new(stream), new(stream)];
    drop((reserved, outside));
    assert_eq!(held(&device), 2 * BYTES, "what is idle goes back to the device");
    let outside = [new(stream), new(stream)];
    drop(outside);
    let again = [new(stream), new(stream)];
    assert_eq!(device.stream_handle().meter().held() as usize, 4 * BYTES, "it serves again");
    drop((again, reservation));
    assert_eq!(held(&device), 0);
}

#[test]
fn the_end_of_one_reservation_leaves_another_one_open() {
    let device = Virtual::new(64 * BYTES);
    let stream = device.stream_handle();
    let first = GraphMemory::begin(stream).unwrap();
    first.close();
    let second = GraphMemory::begin(stream).unwrap();
    drop(first);
    let inside = new(stream);
    drop(second);
    let outside = new(stream);
    assert_ne!(inside.stream().id(), stream.id(), "it is reserved");
    assert_eq!(outside.stream().id(), stream.id());
}

#[test]
fn what_is_used_meanwhile_is_kept() {
    let device = Virtual::new(64 * BYTES);
    let stream = device.stream_handle();
    let setup = GraphMemory::begin(stream).unwrap();
    let of_another = new(stream);
    setup.close();
    drop(setup);
    let mut used = [new(stream), of_another];
    let reservations = [(); 2].map(|()| {
        let reservation = GraphMemory::begin(stream).unwrap();
        used[0].fill(&[1]).unwrap();
        used[1].read_on(stream).unwrap();
        reservation.close();
        reservation
    });
    assert_eq!(device.stream_handle().meter().held() as usize, 2 * BYTES);
    drop(used);
    let [first, second] = reservations;
    assert_eq!(held(&device), 2 * BYTES, "two keep them");
    drop(first);
    assert_eq!(held(&device), 2 * BYTES, "one keeps them");
    drop(second);
    assert_eq!(held(&device), 0);
}

fn panics(act: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(act)).is_err()
}

/// Whether the scope can be entered and left like one that nobody is inside of.
fn is_usable(cache: &'static Cache) -> bool {
    let is_free = !cache.is_entered() && cache.owner().is_none();
    let entry = cache.enter(Terms::new(), Visit::Entry);
    let is_mine = cache.owner().is_some() && cache.is_entered();
    cache.end_visit(entry, Owner::end);
    is_free && is_mine && !cache.is_entered()
}

#[test]
fn a_panic_on_the_owners_side_leaves_the_scope_usable() {
    let cache = Cache::leak();
    let entry = cache.enter(Terms::new(), Visit::Entry);
    for _ in 0..2 {
        assert!(panics(|| cache.owner().unwrap().with(|_, _| panic!("on purpose"))));
    }
    cache.end_visit(entry, Owner::end);
    assert!(is_usable(cache));
}

#[test]
fn a_panic_while_a_scope_is_held_for_a_moment_gives_it_up() {
    let cache = Cache::leak();
    assert!(panics(|| _ = cache.briefly(|_| panic!("on purpose"))));
    assert!(is_usable(cache));
}

#[test]
fn a_panic_as_the_scope_is_left_leaves_it() {
    let cache = Cache::leak();
    for depth in 1..3 {
        let terms = Terms::new().with_recycle(Recycle::Keyed);
        (0..depth).for_each(|_| _ = cache.enter(terms, Visit::Entry));
        (0..depth).for_each(|_| assert!(panics(|| cache.owner().unwrap().exit_after(|_| panic!("on purpose")))));
        assert!(is_usable(cache), "{depth}");
    }
}
