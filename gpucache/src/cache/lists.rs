//! Keyed lists: the idle blocks of a cache, by the exact dtype, shape and stream. Pure structure; releases nothing.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

use super::block::Record;
use crate::base::key::{Key, Request};

#[derive(Default)]
pub(super) struct Lists {
    index: HashTable<u32>,
    lists: Vec<List>,
    /// The list that served last: its `next` is where to look first.
    last: u32,
    hasher: DefaultHashBuilder,
}

struct List {
    key: Key,
    idle: Vec<Box<Record>>,
    /// The list that served after this one the last time. Programs repeat themselves, so this is mostly right.
    next: u32,
}

impl Lists {
    /// Pops an idle block of exactly this key, the one returned last, as its memory is the likeliest in a cache.
    #[inline]
    pub(super) fn pop(&mut self, request: &Request<'_>, stream: u64) -> Option<Box<Record>> {
        let place = self.find(request, stream)?;
        let list = &mut self.lists[place as usize];
        let mut record = list.idle.pop()?;
        record.restore_shape(list.key.shape());
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
        if let Some(place) = self.find(request, stream) {
            return place;
        }
        let key = Key::new(request, stream);
        let place = self.lists.len() as u32;
        let hash = key.hash(self.hasher.build_hasher());
        // Room for one block at once, so that the first return of a fresh key does not allocate.
        self.lists.push(List { key, idle: Vec::with_capacity(1), next: place });
        self.lists[self.last as usize].next = place;
        let (lists, hasher) = (&self.lists, &self.hasher);
        self.index.insert_unique(hash, place, |&other| lists[other as usize].key.hash(hasher.build_hasher()));
        self.last = place;
        place
    }

    #[inline]
    pub(super) fn push(&mut self, place: u32, record: Box<Record>) {
        self.lists[place as usize].idle.push(record);
    }

    /// Hands out all idle blocks; the keys stay, for busy blocks to return to.
    pub(super) fn take_idle(&mut self) -> Vec<Box<Record>> {
        self.lists.iter_mut().flat_map(|list| list.idle.drain(..)).collect()
    }

    /// Forgets all keys. Blocks that return to one of them must not be pushed here any more.
    pub(super) fn forget_keys(&mut self) {
        self.index.clear();
        self.lists.clear();
        self.last = 0;
    }
}
