//! Memory that is reserved, as blocks have it.

use std::any::TypeId;

use super::block::Block;
use super::reservation::Reservation;
use crate::device::{Device, Stream, Virtual};
use crate::range::{DeviceRange, Patience};
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
    DeviceRange::of(device.stream_handle()).unwrap().trim(0, Patience::None).unwrap();
    device.memory().bytes as usize
}

#[test]
fn what_is_reserved_serves_its_reservation_alone() {
    let device = Virtual::new(64 * BYTES);
    let stream = device.stream_handle();
    let reservation = Reservation::begin(stream).unwrap();
    assert!(Reservation::begin(stream).is_err_and(|error| error.is_unavailable()));
    let first = new(stream).address();
    let again = new(stream);
    assert_eq!(again.address(), first, "dropped within, it serves again");
    let other = new(stream);
    reservation.close();
    drop(again);
    // Its stream is a handle for others now.
    let outside = [new(stream), new(other.stream())];
    assert!(outside.iter().all(|block| block.address() != first && block.stream().id() == stream.id()));
    drop(outside);
    assert_eq!(held(&device), 2 * BYTES, "what is reserved is no free memory");
    drop(reservation);
    // The queue of both is one, so that what the one freed is the other's at once.
    let next = Reservation::begin(stream).unwrap();
    assert_eq!(new(stream).address(), first);
    drop(next);
    assert_eq!(held(&device), BYTES, "one is alive");
    drop(other);
    assert_eq!(held(&device), 0);
}

#[test]
fn what_is_used_meanwhile_is_kept() {
    let device = Virtual::new(64 * BYTES);
    let stream = device.stream_handle();
    let setup = Reservation::begin(stream).unwrap();
    let of_another = new(stream);
    setup.close();
    drop(setup);
    let mut used = [new(stream), of_another];
    let reservations = [(); 2].map(|()| {
        let reservation = Reservation::begin(stream).unwrap();
        used[0].fill(&[1]).unwrap();
        used[1].read_on(stream).unwrap();
        reservation.close();
        reservation
    });
    assert_eq!(device.memory().bytes as usize, 2 * BYTES);
    drop(used);
    let [first, second] = reservations;
    assert_eq!(held(&device), 2 * BYTES, "two keep them");
    drop(first);
    assert_eq!(held(&device), 2 * BYTES, "one keeps them");
    drop(second);
    assert_eq!(held(&device), 0);
}
