//! What one scope should do and count, said as naively as possible: a count of idle blocks per key.
//!
//! The model is of one thread that lives, beside threads that come, do something and end. A scope that a thread is inside
//! of is settled by that thread alone: it notices invalidations and returned blocks when it enters, finds nothing idle,
//! releases something, or leaves.

use std::collections::HashMap;

use crate::marked::{TYPES, element_size};

/// The shapes that arrays can have.
pub const SHAPES: [&[usize]; 6] = [&[], &[0], &[3], &[2, 5], &[5, 2], &[1, 2, 1, 2, 1, 2, 1, 3]];

/// The type and the shape of an array, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// A type of [`Marked`](crate::Marked) arrays.
    pub kind: usize,
    /// One of [`SHAPES`].
    pub shape: usize,
}

/// A block in use.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// What it was asked for as.
    pub key: Key,
    /// Where it returns to.
    pub home: Home,
}

/// Where a block returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Home {
    /// No scope: to the device.
    Plain,
    /// The living thread's cache, in a generation.
    Kept { name: usize, generation: u64 },
    /// A scope that releases it: it is of an entry without recycling, or of a thread that ended.
    Released { name: usize, by_this_thread: bool },
}

/// One scope.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Entries of the living thread that are open.
    pub inside: usize,
    /// All entries so far.
    pub entries: u64,
    /// Allocations that an idle block served.
    pub hits: u64,
    /// Allocations that the device served.
    pub misses: u64,
    /// Misses of any bytes.
    pub device_allocations: u64,
    /// Blocks in use, and their bytes.
    pub busy: (u64, u64),
    /// The most bytes in use at once, where no other thread was inside: each has a mark of its own.
    pub high_water: u64,
    /// Invalidations so far, and those that the living thread has noticed.
    generation: u64,
    noticed: u64,
    idle: HashMap<Key, u64>,
    /// Dropped by other threads while the living one was inside.
    returned: Vec<Block>,
}

impl Key {
    /// How many keys there are.
    pub const ALL: usize = TYPES * SHAPES.len();

    /// A key by its number.
    pub fn number(number: usize) -> Key {
        Key { kind: number % TYPES, shape: number / TYPES % SHAPES.len() }
    }

    /// The size of an array of this key.
    pub fn bytes(self) -> u64 {
        (SHAPES[self.shape].iter().product::<usize>() * element_size(self.kind)) as u64
    }
}

impl Scope {
    /// The living thread enters the scope.
    pub fn enter(&mut self) {
        self.entries += 1;
        self.inside += 1;
        self.settle();
    }

    /// The living thread leaves the scope once.
    pub fn leave(&mut self) {
        self.inside -= 1;
        if self.inside == 0 {
            self.settle();
        }
    }

    /// An allocation by the living thread in an entry that keeps blocks or does not. Returns where the block returns to.
    pub fn allocate(&mut self, name: usize, key: Key, keeps: bool) -> Home {
        if !keeps {
            self.count(key, false);
            return Home::Released { name, by_this_thread: true };
        }
        let mut hits = self.noticed == self.generation && self.serve(key);
        if !hits {
            self.settle();
            hits = self.serve(key);
        }
        self.count(key, hits);
        Home::Kept { name, generation: self.noticed }
    }

    /// A drop of a block of this scope, by the living thread or `elsewhere`.
    pub fn dropped(&mut self, block: Block, elsewhere: bool) {
        self.busy = (self.busy.0 - 1, self.busy.1 - block.key.bytes());
        if matches!(block.home, Home::Released { by_this_thread: false, .. }) {
            return;
        }
        if elsewhere && self.inside > 0 {
            self.returned.push(block);
        } else if !self.keep(block) || self.noticed != self.generation {
            self.settle();
        }
    }

    /// An invalidation by the living thread or `elsewhere`.
    pub fn invalidated(&mut self, elsewhere: bool) {
        self.generation += 1;
        if !elsewhere || self.inside == 0 {
            self.settle();
        }
    }

    /// A thread entered, allocated, dropped, allocated again, and ended, while the second array lives on.
    pub fn visited(&mut self, key: Key) {
        self.entries += 1;
        self.hits += 1;
        let own_mark = self.high_water;
        self.count(key, false);
        self.high_water = own_mark;
    }

    /// Idle blocks, and their bytes.
    pub fn idle(&self) -> (u64, u64) {
        let listed = self.idle.iter().map(|(key, count)| (*count, count * key.bytes()));
        let returned = self.returned.iter().map(|block| (1, block.key.bytes()));
        listed.chain(returned).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn settle(&mut self) {
        if self.noticed != self.generation {
            self.idle.clear();
            self.noticed = self.generation;
        }
        for block in std::mem::take(&mut self.returned) {
            self.keep(block);
        }
    }

    /// Takes a block back; false if it is released.
    fn keep(&mut self, block: Block) -> bool {
        let keeps = matches!(block.home, Home::Kept { generation, .. } if generation == self.noticed);
        if keeps {
            *self.idle.entry(block.key).or_default() += 1;
        }
        keeps
    }

    fn serve(&mut self, key: Key) -> bool {
        let idle = self.idle.entry(key).or_default();
        let serves = *idle > 0;
        *idle -= u64::from(serves);
        serves
    }

    fn count(&mut self, key: Key, hits: bool) {
        self.hits += u64::from(hits);
        self.misses += u64::from(!hits);
        self.device_allocations += u64::from(!hits && key.bytes() > 0);
        self.busy = (self.busy.0 + 1, self.busy.1 + key.bytes());
        self.high_water = self.high_water.max(self.busy.1);
    }
}
