//! Keyed lists: the idle blocks of a cache, by exact dtype, shape and stream. This file is a pure data structure and releases
//! nothing.
//!
//! A key has a list while blocks of the key are idle or in use, or were requested lately. Where shapes change all the time, a new
//! key gets the list of an old key that never comes again.
//!
//! Invariants:
//!
//! - `idle_bytes` and `idle_blocks` are the sums over all lists.
//! - Each key that a cache ever had gets a number of its own. A block returns to its key's list as long as the list still has that
//!   number.
//! - While blocks age, each idle block has an entry in `aging` with its list and the time of its return, in order of time. Readers
//!   skip the entries of blocks that were handed out since.

use std::any::TypeId;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::record::{Dims, ListPlace, Record, Request};

#[derive(Default)]
pub(super) struct Lists {
    index: HashTable<u32>,
    lists: Vec<List>,
    /// The list that served last. A search begins with its `next`.
    last: u32,
    hasher: DefaultHashBuilder,
    /// The bytes that the idle blocks take in a range.
    idle_bytes: u64,
    idle_blocks: usize,
    aging: VecDeque<(u32, u64)>,
    /// The number of pushes so far.
    clock: u64,
    /// The clock at the last look for unused blocks that found none.
    looked: u64,
    /// The number of keys so far.
    keys: u64,
    /// The next list to check when a new key needs one.
    hand: usize,
}

struct List {
    /// Identifies the key among all that the cache ever had; begins at 1.
    number: u64,
    key: Key,
    /// The idle blocks, the oldest first.
    idle: VecDeque<Box<Record>>,
    /// The list that served after this one the last time. Programs repeat themselves, so this guess is mostly right.
    next: u32,
    /// The number of blocks that are still to return.
    out: u32,
}

/// With more keys than this, a new key takes the list of a key without blocks. A key takes about 200 bytes, and programs that
/// repeat themselves have far fewer keys.
const MANY_KEYS: usize = 1024;
/// A new key checks this many lists. Few, so that a new key costs the same however many lists there are. More than one, so that a
/// free list is found soon where most are in use.
const LISTS_LOOKED_AT: usize = 4;
/// The least bytes that a block takes: blocks of a range begin at multiples of this.
const LEAST_BYTES: u64 = crate::device::ALIGNMENT;

impl Lists {
    /// Pops an idle block of exactly this key. The block that returned last comes first, since its memory is the most likely to be
    /// in a processor's cache.
    #[inline]
    pub(super) fn pop(&mut self, request: &Request<'_>, stream: u64) -> Option<Box<Record>> {
        // As `find`, which would look up the list twice.
        let guess = self.lists.get(self.last as usize)?.next;
        let list = match self.lists.get_mut(guess as usize) {
            Some(list) if list.key.matches(request, stream) => {
                self.last = guess;
                list
            }
            _ => {
                self.last = self.search(request, stream)?;
                self.lists.get_mut(self.last as usize)?
            }
        };
        let mut record = list.idle.pop_back()?;
        list.out = list.out.wrapping_add(1);
        record.restore_shape(&list.key.shape);
        self.count_out(&record);
        Some(record)
    }

    /// The list of a key: the list that followed the last one before, if it matches, or else the one found by the key's hash.
    #[inline]
    fn find(&mut self, request: &Request<'_>, stream: u64) -> Option<u32> {
        let guess = self.lists.get(self.last as usize)?.next;
        let place = match self.lists.get(guess as usize) {
            Some(list) if list.key.matches(request, stream) => guess,
            _ => self.search(request, stream)?,
        };
        self.last = place;
        Some(place)
    }

    #[cold]
    fn search(&mut self, request: &Request<'_>, stream: u64) -> Option<u32> {
        let hash = hash_parts(request.dtype, stream, request.dims, self.hasher.build_hasher());
        let lists = &self.lists;
        let place = *self.index.find(hash, |&place| lists[place as usize].key.matches(request, stream))?;
        self.lists[self.last as usize].next = place;
        Some(place)
    }

    /// The place to which a new block of this key will return. A key without a list gets one.
    pub(super) fn place_of(&mut self, request: &Request<'_>, stream: u64) -> ListPlace {
        // A pop that found the list empty has just set `last` to it.
        let here = self.lists.get(self.last as usize).is_some_and(|list| list.key.matches(request, stream));
        let known = if here { Some(self.last) } else { self.find(request, stream) };
        let list =
            known.unwrap_or_else(|| self.add(Key { dtype: request.dtype, stream, shape: Dims::new(request.dims) }));
        let known = &mut self.lists[list as usize];
        known.out = known.out.wrapping_add(1);
        ListPlace { list, key: known.number }
    }

    /// Gives a list to a new key.
    fn add(&mut self, key: Key) -> u32 {
        self.keys += 1;
        let hash = key.hash(self.hasher.build_hasher());
        let (place, number) = (self.disused().unwrap_or(self.lists.len()), self.keys);
        let next = place as u32;
        match self.lists.get_mut(place) {
            Some(list) => (list.number, list.key, list.next) = (number, key, next),
            None => {
                // Reserves room for one block, so that the first return of a new key does not allocate.
                let idle = VecDeque::with_capacity(1);
                self.lists.push(List { number, key, idle, next, out: 0 });
            }
        }
        self.lists[self.last as usize].next = next;
        let (lists, hasher) = (&self.lists, &self.hasher);
        self.index.insert_unique(hash, next, |&other| lists[other as usize].key.hash(hasher.build_hasher()));
        self.last = next;
        next
    }

    /// Where there are many keys: takes a list without blocks away from its key, if the next few lists contain one.
    fn disused(&mut self) -> Option<usize> {
        if self.lists.len() < MANY_KEYS {
            return None;
        }
        let place = (0..LISTS_LOOKED_AT).find_map(|_| {
            self.hand = (self.hand + 1) % self.lists.len();
            let list = &self.lists[self.hand];
            (list.idle.is_empty() && list.out == 0).then_some(self.hand)
        })?;
        let hash = self.lists[place].key.hash(self.hasher.build_hasher());
        if let Ok(entry) = self.index.find_entry(hash, |&other| other as usize == place) {
            entry.remove();
        }
        Some(place)
    }

    /// Whether the list of a returning block is still at this place. If so, counts the block as returned.
    #[inline]
    pub(super) fn expects(&mut self, place: ListPlace) -> bool {
        match self.lists.get_mut(place.list as usize) {
            Some(list) if list.number == place.key => {
                list.out = list.out.wrapping_sub(1);
                true
            }
            _ => false,
        }
    }

    /// Whether a block goes into its list if the lists may keep so many bytes. If they have more, since they may keep less than before, the block
    /// goes in, and all that is too much then goes back.
    #[inline]
    pub(super) fn takes(&self, bytes: u64, budget: u64) -> bool {
        bytes <= budget || self.idle_bytes > budget
    }

    /// Takes in a block that its list [`expects`](Lists::expects). [`pop_oldest`](Lists::pop_oldest) can find it.
    #[inline(always)]
    pub(super) fn push(&mut self, mut record: Box<Record>) {
        let place = record.place().list;
        self.idle_bytes += taken_by(&record);
        self.idle_blocks += 1;
        self.clock += 1;
        record.seen = self.clock;
        self.age(place);
        self.lists[place as usize].idle.push_back(record);
    }

    /// Takes in a block that does not age. Hands it back if its list is no longer at its place.
    #[inline(always)]
    pub(super) fn keep(&mut self, record: Box<Record>) -> Option<Box<Record>> {
        let place = record.place();
        let list = self.lists.get_mut(place.list as usize).filter(|list| list.number == place.key);
        let Some(list) = list else { return Some(record) };
        list.out = list.out.wrapping_sub(1);
        self.idle_bytes += taken_by(&record);
        self.idle_blocks += 1;
        list.idle.push_back(record);
        None
    }

    /// Lets all idle blocks age from now on, as if they had just returned.
    pub(super) fn age_all(&mut self) {
        self.aging.clear();
        for (place, list) in (0..).zip(&mut self.lists) {
            for record in &mut list.idle {
                self.clock += 1;
                record.seen = self.clock;
                self.aging.push_back((place, self.clock));
            }
        }
    }

    /// Notes that a block returned now, and drops outdated notes once most are outdated.
    #[inline(never)]
    fn age(&mut self, place: u32) {
        self.aging.push_back((place, self.clock));
        if self.aging.len() > 2 * self.idle_blocks + 64 {
            let lists = &self.lists;
            let idle = |&(place, seen): &(u32, u64)| {
                let list = &lists[place as usize].idle;
                list.binary_search_by_key(&seen, |record| record.seen).is_ok()
            };
            let newest = self.aging.pop_back();
            self.aging.retain(idle);
            self.aging.extend(newest);
        }
    }

    /// Of the blocks that age, pops the one that has been idle longest.
    pub(super) fn pop_oldest(&mut self) -> Option<Box<Record>> {
        self.pop_before(u64::MAX)
    }

    /// Of the blocks that age, pops one that has been idle since before the last call that found none.
    pub(super) fn pop_unused(&mut self) -> Option<Box<Record>> {
        let unused = self.pop_before(self.looked);
        if unused.is_none() {
            self.looked = self.clock;
        }
        unused
    }

    /// Pops the block that has been idle longest, if it returned at this time or before.
    fn pop_before(&mut self, time: u64) -> Option<Box<Record>> {
        while let Some(&(place, seen)) = self.aging.front().filter(|&&(_, seen)| seen <= time) {
            self.aging.pop_front();
            let idle = &mut self.lists[place as usize].idle;
            if idle.front().is_some_and(|record| record.seen == seen) {
                let record = idle.pop_front()?;
                self.count_out(&record);
                return Some(record);
            }
        }
        None
    }

    /// The bytes that the idle blocks take in a range.
    pub(super) fn idle_bytes(&self) -> u64 {
        self.idle_bytes
    }

    /// The number of lists. Each belongs to one key.
    #[inline]
    pub(super) fn keys(&self) -> usize {
        self.lists.len()
    }

    #[inline]
    fn count_out(&mut self, record: &Record) {
        self.idle_bytes -= taken_by(record);
        self.idle_blocks -= 1;
    }

    /// Hands out all idle blocks. The keys stay, since busy blocks return to them. The time depends only on the number of blocks
    /// that age, which are all blocks except in a scope that keeps everything.
    pub(super) fn take_idle(&mut self) -> Vec<Box<Record>> {
        let mut idle = Vec::with_capacity(self.idle_blocks);
        idle.extend(std::iter::from_fn(|| self.pop_oldest()));
        if self.idle_blocks > 0 {
            (self.idle_bytes, self.idle_blocks) = (0, 0);
            idle.extend(self.lists.iter_mut().flat_map(|list| list.idle.drain(..)));
        }
        idle
    }

    /// Hands out the idle blocks of all streams except the one that was asked for last.
    pub(super) fn take_idle_of_other_streams(&mut self) -> Vec<Box<Record>> {
        let stream = self.last_stream();
        let others = self.lists.iter_mut().filter(|list| Some(list.key.stream) != stream);
        let idle: Vec<_> = others.flat_map(|list| list.idle.drain(..)).collect();
        idle.iter().for_each(|record| self.count_out(record));
        idle
    }

    pub(super) fn keys_of_other_streams(&self) -> usize {
        let stream = self.last_stream();
        self.lists.iter().filter(|list| Some(list.key.stream) != stream).count()
    }

    /// The stream of the list that served last.
    pub(super) fn last_stream(&self) -> Option<u64> {
        Some(self.lists.get(self.last as usize)?.key.stream)
    }

    /// Forgets all keys, and frees their memory on the host's heap. No block may be idle. Blocks that return later have no list any
    /// more.
    pub(super) fn forget_keys(&mut self) {
        let Lists { keys, clock, .. } = *self;
        *self = Lists { keys, clock, ..Lists::default() };
    }
}

/// The bytes that a block takes in a range. A small block takes the smallest size that a range has.
#[inline]
fn taken_by(record: &Record) -> u64 {
    (record.bytes as u64).max(LEAST_BYTES)
}

/// The parts of a request that must be equal before a block is handed out again.
#[derive(Clone, Debug)]
struct Key {
    dtype: TypeId,
    stream: u64,
    shape: Dims,
}

impl Key {
    #[inline]
    fn matches(&self, request: &Request<'_>, stream: u64) -> bool {
        self.stream == stream && self.dtype == request.dtype && same_dims(request.dims, self.shape.dims())
    }

    fn hash(&self, state: impl Hasher) -> u64 {
        hash_parts(self.dtype, self.stream, self.shape.dims(), state)
    }
}

/// The hash of a key's parts.
#[inline]
fn hash_parts(dtype: TypeId, stream: u64, dims: &[usize], mut state: impl Hasher) -> u64 {
    dtype.hash(&mut state);
    state.write_u64(stream);
    dims.iter().for_each(|&dim| state.write_usize(dim));
    state.finish()
}

/// Whether two shapes are equal. Shapes are short, so a call to compare memory costs more than a loop over the dimensions.
#[inline]
fn same_dims(one: &[usize], other: &[usize]) -> bool {
    // The slices' own comparison would be that call.
    one.len() == other.len() && (0..one.len()).all(|place| one[place] == other[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: 'static>(dims: &[usize]) -> Request<'_> {
        Request {
            dtype: TypeId::of::<T>(),
            type_name: "",
            dims,
            bytes: dims.iter().product::<usize>() * size_of::<T>(),
            site: None,
        }
    }

    #[test]
    fn a_key_matches_its_own_request_only() {
        let request = of::<f32>(&[2, 3]);
        let key = Key { dtype: request.dtype, stream: 7, shape: Dims::new(request.dims) };
        assert!(key.matches(&request, 7) && !key.matches(&request, 8));
        assert!(!key.matches(&of::<f32>(&[3, 2]), 7));
        assert!(!key.matches(&of::<i32>(&[2, 3]), 7));
    }
}
