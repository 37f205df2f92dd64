//! Keyed lists: the idle blocks of a cache, by the exact dtype, shape and stream. Pure structure; releases nothing.
//!
//! Invariants: `idle_bytes` and `idle_blocks` are those of all lists. While blocks age, each idle one has an entry in
//! `aging` with its list and the time it came, in order; entries of blocks that were handed out since are skipped.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::record::Record;
use crate::base::key::{Key, Request};

#[derive(Default)]
pub(super) struct Lists {
    index: HashTable<u32>,
    lists: Vec<List>,
    /// The list that served last: its `next` is where to look first.
    last: u32,
    hasher: DefaultHashBuilder,
    idle_bytes: u64,
    idle_blocks: usize,
    aging: VecDeque<(u32, u64)>,
    /// Counts pushes.
    clock: u64,
}

struct List {
    key: Key,
    /// The oldest first.
    idle: VecDeque<Box<Record>>,
    /// The list that served after this one the last time. Programs repeat themselves, so this is mostly right.
    next: u32,
}

impl Lists {
    /// Pops an idle block of exactly this key, the one returned last, as its memory is the likeliest in a cache.
    #[inline]
    pub(super) fn pop(&mut self, request: &Request<'_>, stream: u64) -> Option<Box<Record>> {
        let place = self.find(request, stream)?;
        let list = &mut self.lists[place as usize];
        let mut record = list.idle.pop_back()?;
        record.restore_shape(list.key.shape());
        self.count_out(&record);
        Some(record)
    }

    /// The list of a key: the one that followed the last one before, else by its hash.
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
        let hash = request.hash(stream, self.hasher.build_hasher());
        let lists = &self.lists;
        let place = *self.index.find(hash, |&place| lists[place as usize].key.matches(request, stream))?;
        self.lists[self.last as usize].next = place;
        Some(place)
    }

    /// The list that blocks of this key return to, made if there is none yet.
    pub(super) fn place_of(&mut self, request: &Request<'_>, stream: u64) -> u32 {
        // A pop that found the list empty has just been here.
        let here = self.lists.get(self.last as usize).is_some_and(|list| list.key.matches(request, stream));
        if let Some(place) = if here { Some(self.last) } else { self.find(request, stream) } {
            return place;
        }
        let key = Key::new(request, stream);
        let place = self.lists.len() as u32;
        let hash = key.hash(self.hasher.build_hasher());
        // Room for one block at once, so that the first return of a fresh key does not allocate.
        self.lists.push(List { key, idle: VecDeque::with_capacity(1), next: place });
        self.lists[self.last as usize].next = place;
        let (lists, hasher) = (&self.lists, &self.hasher);
        self.index.insert_unique(hash, place, |&other| lists[other as usize].key.hash(hasher.build_hasher()));
        self.last = place;
        place
    }

    /// Takes a block in; one that `ages` can be found by [`pop_oldest`](Lists::pop_oldest).
    #[inline(always)]
    pub(super) fn push(&mut self, place: u32, mut record: Box<Record>, ages: bool) {
        self.idle_bytes += record.bytes() as u64;
        self.idle_blocks += 1;
        if ages {
            self.clock += 1;
            record.seen = self.clock;
            self.age(place);
        }
        self.lists[place as usize].idle.push_back(record);
    }

    /// Lets all idle blocks age from now on, as if they had just come.
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

    /// Notes that a block came now, and drops outdated notes once they are the most.
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

    /// Pops the block that has been idle longest, of those that age.
    pub(super) fn pop_oldest(&mut self) -> Option<Box<Record>> {
        while let Some((place, seen)) = self.aging.pop_front() {
            let idle = &mut self.lists[place as usize].idle;
            if idle.front().is_some_and(|record| record.seen == seen) {
                let record = idle.pop_front()?;
                self.count_out(&record);
                return Some(record);
            }
        }
        None
    }

    pub(super) fn idle_bytes(&self) -> u64 {
        self.idle_bytes
    }

    /// How many keys blocks were asked for by.
    #[inline]
    pub(super) fn keys(&self) -> usize {
        self.lists.len()
    }

    #[inline]
    fn count_out(&mut self, record: &Record) {
        self.idle_bytes -= record.bytes() as u64;
        self.idle_blocks -= 1;
    }

    /// Hands out all idle blocks; the keys stay, for busy blocks to return to.
    pub(super) fn take_idle(&mut self) -> Vec<Box<Record>> {
        self.aging.clear();
        (self.idle_bytes, self.idle_blocks) = (0, 0);
        self.lists.iter_mut().flat_map(|list| list.idle.drain(..)).collect()
    }

    /// Hands out the idle blocks of all streams but the one that was asked for last.
    pub(super) fn take_idle_of_other_streams(&mut self) -> Vec<Box<Record>> {
        let stream = self.last_stream();
        let others = self.lists.iter_mut().filter(|list| list.key.stream() != stream);
        let idle: Vec<_> = others.flat_map(|list| list.idle.drain(..)).collect();
        idle.iter().for_each(|record| self.count_out(record));
        idle
    }

    pub(super) fn keys_of_other_streams(&self) -> usize {
        let stream = self.last_stream();
        self.lists.iter().filter(|list| list.key.stream() != stream).count()
    }

    fn last_stream(&self) -> u64 {
        self.lists.get(self.last as usize).map_or(0, |list| list.key.stream())
    }

    /// Forgets all keys. Blocks that return to one of them must not be pushed here any more.
    pub(super) fn forget_keys(&mut self) {
        self.index.clear();
        self.lists.clear();
        self.last = 0;
    }
}
