//! Every kind of use of an array on a foreign stream, with every kind of stream and service: a slow use elsewhere and then the
//! memory's next life at home, and slow work at home and then a use elsewhere.

use gpucache::prelude::*;

use crate::Service;
use crate::place::{Foreign, LEN, Outcome, Place, USES, Use};
use gpucache_tests::alone::alone;

const ROUNDS: usize = 3;
/// One round, slow or not. Returns whether all observed contents are right.
type Round = fn(&mut Place, Use, bool) -> Outcome<bool>;

const DIRECTIONS: [(&str, Round); 2] = [("foreign first", foreign_first), ("home first", home_first)];

/// A slow use elsewhere, the array's drop, and the next life of its memory at home. Returns whether both are right.
fn foreign_first(place: &mut Place, how: Use, is_slow: bool) -> Outcome<bool> {
    let mut array = Array::full(&place.home, LEN, 1.0)?;
    place.forget()?;
    place.hold(&place.foreign, is_slow);
    place.put(how, &mut array)?;
    place.hand_over()?;
    let before = array.address();
    drop(array);
    let next = Array::full(&place.home, LEN, 2.0)?;
    place.next_lives += 1;
    place.recycled += u32::from(next.address() == before);
    place.synchronize()?;
    Ok(place.saw(how, 1.0)? && next.to_vec()? == [2.0; LEN])
}

/// A slow read and a write at home, and then the use elsewhere. Returns whether all are right.
fn home_first(place: &mut Place, how: Use, is_slow: bool) -> Outcome<bool> {
    let mut array = Array::full(&place.home, LEN, 1.0)?;
    place.forget()?;
    let home = place.home.stream().clone();
    place.hold(&home, is_slow);
    home.memcpy_dtod(&array, &mut place.seen_at_home)?;
    home.memcpy_dtod(&place.threes, &mut array)?;
    place.hand_over()?;
    place.put(how, &mut array)?;
    place.synchronize()?;
    let was_read_before = home.clone_dtoh(&place.seen_at_home)? == [1.0; LEN];
    let last = array.to_vec()? == [how.written().unwrap_or(3.0); LEN];
    Ok(was_read_before && last && place.saw(how, 3.0)?)
}

/// All uses and services with one kind of foreign stream.
fn matrix(kind: Foreign) {
    let Some(mut place) = Place::new(kind) else { return };
    let (mut combinations, mut races, mut errors) = (0, 0, 0);
    for (how, service) in USES.iter().flat_map(|how| Service::ALL.map(|service| (*how, service))) {
        for (direction, round) in DIRECTIONS {
            let name = format!("{how:?}, stream {kind:?}, {service:?}, {direction}");
            combinations += 1;
            let mut wrong = 0;
            for number in 0..service.warm() + ROUNDS {
                match service.enter(&name, || round(&mut place, how, number >= service.warm())) {
                    Ok(is_right) => wrong += u32::from(!is_right),
                    Err(error) => {
                        println!("ERROR {name}: {error}");
                        errors += 1;
                        break;
                    }
                }
            }
            if wrong > 0 {
                println!("RACE {name}: {wrong} rounds");
                races += 1;
            }
            let _ = invalidate(&name);
            place.synchronize().unwrap_or_else(|error| panic!("the context is lost after {name}: {error}"));
        }
    }
    let Place { recycled, next_lives, .. } = place;
    println!("{kind:?}: {combinations} combinations, {races} race, {errors} fail");
    println!("{kind:?}: {recycled} of {next_lives} next lives began where the last one was");
    assert_eq!((races, errors), (0, 0), "combinations that race, and that fail");
    assert!(recycled >= next_lives / 10, "too little memory is recycled for this to tell anything");
}

#[test]
fn a_stream_of_the_own_context() {
    alone(60, || matrix(Foreign::OwnContext));
}

#[test]
fn a_stream_of_a_second_context() {
    alone(60, || matrix(Foreign::SecondContext));
}

#[test]
fn a_stream_of_a_second_context_beside_several() {
    alone(60, || matrix(Foreign::SecondContextOfSeveral));
}

#[test]
fn a_borrowed_stream() {
    alone(60, || matrix(Foreign::Borrowed));
}

#[test]
fn the_default_stream_of_a_second_context() {
    alone(60, || matrix(Foreign::LegacyDefault));
}

#[test]
fn a_stream_of_an_untracked_context() {
    alone(60, || matrix(Foreign::Untracked));
}
