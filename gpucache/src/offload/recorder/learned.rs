//! A recorded entry: its uses in order, and their arrays.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::HashMap;

use super::{BORN, Name, Seen};
use crate::offload::host_pool::{HostPool, Rests};
use crate::offload::placement::Placement;
use gpucache_plan::offload::{Access, Order, Use};

/// With more uses an entry is not recorded: its schedule would take too long.
const MOST_USES: usize = 1 << 16;

/// The share of the room that is left to arrays which are too small to be worth a move.
const SMALL_SHARE: u64 = 64;

/// Memory is allocated in multiples of this, or of a part of it.
const UNIT: u64 = 512;

/// The uses of an entry.
#[derive(Default)]
pub(super) struct Learned {
    pub(super) uses: Vec<Seen>,
    /// The next use when each of them had ended.
    until: Vec<u32>,
    /// Each array, by its index.
    pub(super) arrays: Vec<(Name, Weak<dyn Rests>, u64)>,
    /// The index of each array, and the place of its last use.
    index: HashMap<Name, (u32, u32)>,
    /// A recorded entry keeps no device alive.
    pub(super) pool: Option<Weak<HostPool>>,
    /// The least room that there was for all arrays.
    pub(super) room: u64,
    /// The evictions before the entry, and those in it.
    evictions: u64,
    pub(super) evicted: u64,
    pub(super) length: Duration,
    /// Whether each array was gone at the end.
    dies: Vec<bool>,
    is_too_long: bool,
}

impl Learned {
    /// An entry whose uses are known already, up to now.
    pub(super) fn of(uses: Vec<Seen>, arrays: Vec<(Name, Weak<dyn Rests>, u64)>) -> Learned {
        // One that was not used yet has no last use.
        let unused = arrays.iter().zip(0..).map(|((name, ..), index)| (*name, (index, u32::MAX)));
        let mut index: HashMap<Name, (u32, u32)> = unused.collect();
        let until = (1..=uses.len() as u32).collect();
        for (seen, place) in uses.iter().zip(0..) {
            index.get_mut(&seen.name).into_iter().for_each(|(_, last)| *last = place);
        }
        Learned { uses, until, arrays, index, ..Learned::default() }
    }

    /// Another use. Its place, if it is written down.
    pub(super) fn note(&mut self, seen: Seen, slot: &Arc<impl Rests + 'static>) -> Option<u32> {
        if self.uses.len() >= MOST_USES {
            self.is_too_long = true;
            return None;
        }
        let pool = slot.pool();
        let (room, evictions) = (pool.room(), pool.evictions());
        match &self.pool {
            None => (self.pool, self.room, self.evictions) = (Some(Arc::downgrade(pool)), room, evictions),
            Some(known) if known.as_ptr() == Arc::as_ptr(pool) => {
                self.room = self.room.min(room);
                self.evicted = evictions.saturating_sub(self.evictions);
            }
            // Arrays of another device would need an order, a room and evictions of their own. One device is enough.
            Some(_) => self.is_too_long = true,
        }
        self.uses.push(seen);
        self.until.push(self.uses.len() as u32);
        let (place, next) = (self.uses.len() as u32 - 1, self.arrays.len() as u32);
        let (array, last) = self.index.entry(seen.name).or_insert((next, place));
        *last = place;
        if *array == next {
            let known: Arc<dyn Rests> = slot.clone();
            self.arrays.push((seen.name, Arc::downgrade(&known), slot.tag().bytes));
        }
        Some(place)
    }

    /// An array is gone: its last use lasted until now.
    pub(super) fn gone(&mut self, name: Name) {
        let last = self.index.get(&name).map(|(_, last)| *last);
        last.into_iter().for_each(|place| self.end_use(place));
    }

    /// The use at a place has ended, before the next one.
    pub(super) fn end_use(&mut self, place: u32) {
        let next = self.uses.len() as u32;
        self.until.get_mut(place as usize).into_iter().for_each(|until| *until = next);
    }

    pub(super) fn end(&mut self, length: Duration) {
        self.length = length;
        self.dies = self.arrays.iter().map(|(_, slot, _)| slot.strong_count() == 0).collect();
    }

    /// The arrays that are not gone.
    pub(super) fn alive(&self) -> impl Iterator<Item = Arc<dyn Rests>> {
        self.arrays.iter().filter_map(|(_, slot, _)| slot.upgrade())
    }

    /// The bytes of all arrays together; the largest number stands for more, which fit nowhere.
    fn bytes(&self) -> u64 {
        self.arrays.iter().fold(0, |sum: u64, (_, _, bytes)| sum.saturating_add(*bytes))
    }

    /// The bytes of the arrays that the entry makes.
    pub(super) fn made(&self) -> u64 {
        let made = self.arrays.iter().filter(|(name, ..)| name & BORN != 0);
        made.fold(0, |sum: u64, (_, _, bytes)| sum.saturating_add(*bytes))
    }

    /// Whether another entry did the same.
    pub(super) fn is_like(&self, other: &Learned) -> bool {
        !self.is_too_long && !other.is_too_long && self.uses == other.uses
    }

    /// Whether the arrays do not fit the room without its spared share, or an array had to leave.
    pub(super) fn is_short(&self, spared: u64) -> bool {
        self.evicted > 0 || self.bytes() > self.room - self.room / spared
    }

    /// The seconds of work in the entry: its length without the copies that it waited for, estimated from their bytes.
    pub(super) fn work(&self, bytes_per_second: f64) -> f64 {
        let length = self.length.as_secs_f64();
        let mean = self.bytes() as f64 / self.arrays.len().max(1) as f64;
        // Each array that left came back.
        (length - 2.0 * self.evicted as f64 * mean / bytes_per_second).max(length / 4.0)
    }

    /// The most bytes of a small array. All small arrays together are a small share of the room, and each move costs calls of the device
    /// whatever its bytes are.
    fn small(&self) -> u64 {
        let mut sizes: Vec<u64> = self.arrays.iter().map(|(_, _, bytes)| *bytes).collect();
        sizes.sort_unstable();
        let sums = sizes.iter().scan(0u64, |sum, &bytes| {
            *sum = sum.saturating_add(bytes);
            Some((*sum, bytes))
        });
        let fits = sums.take_while(|(sum, _)| *sum <= self.room / SMALL_SHARE);
        fits.last().map_or(0, |(_, bytes)| bytes.saturating_sub(1))
    }

    /// The bytes that may leave of each array: none of small arrays, and of those that always rest on the device.
    fn movable(&self) -> Vec<u64> {
        let small = self.small();
        let stays = self.are_placed(Placement::Device);
        let movable = |((_, _, bytes), stays): (&(Name, _, u64), _)| if *bytes <= small || stays { 0 } else { *bytes };
        self.arrays.iter().zip(stays).map(movable).collect()
    }

    /// Whether each array has this placement.
    fn are_placed(&self, placement: Placement) -> Vec<bool> {
        let is = |slot: Arc<dyn Rests>| slot.tag().placement.get() == placement;
        self.arrays.iter().map(|(_, slot, _)| slot.upgrade().is_some_and(is)).collect()
    }

    /// The room beside the arrays that always rest on the device.
    pub(super) fn room_for_moves(&self) -> u64 {
        let stays = self.arrays.iter().zip(self.movable()).map(|((_, _, bytes), movable)| bytes - movable);
        stays.fold(self.room, u64::saturating_sub)
    }

    /// For the offsets of arrays: the bytes that each one needs, none of those that always rest on the device, and the bytes that there are.
    pub(super) fn places(&self) -> (Vec<u64>, u64) {
        let mut room = self.room;
        let needed = self.arrays.iter().zip(self.are_placed(Placement::Device)).map(|((_, _, bytes), stays)| {
            if stays {
                room = room.saturating_sub(*bytes);
                return 0;
            }
            bytes.checked_next_multiple_of(UNIT).unwrap_or(*bytes)
        });
        (needed.collect(), room)
    }

    /// The entry as `gpucache-plan` takes it. The time of each use is not known, and estimated from its bytes, as if a matrix were read
    /// once.
    pub(super) fn order(&self, seconds: f64) -> Order {
        let place = |use_: &Seen| self.index.get(&use_.name).map_or(0, |(array, _)| *array);
        let bytes: Vec<u64> = self.arrays.iter().map(|(_, _, bytes)| *bytes).collect();
        let seen = self.uses.iter().zip(&self.until);
        let uses: Vec<Use> =
            seen.map(|(seen, &until)| Use { array: place(seen), access: seen.access, until }).collect();
        let work = |each: &Use| if each.access == Access::Fill { 0 } else { bytes[each.array as usize] };
        // As floats, which have a sum of whatever bytes.
        let all = uses.iter().map(|each| work(each) as f64).sum::<f64>().max(1.0);
        let mut done = 0.0;
        let at = uses.iter().map(|each| {
            let at = done / all * seconds;
            done += work(each) as f64;
            at
        });
        let (at, bytes, rests) = (at.collect(), self.movable(), self.are_placed(Placement::Host));
        Order { at, bytes, uses: uses.clone(), length: seconds, dies: self.dies.clone(), rests }
    }
}
