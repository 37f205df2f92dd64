//! A naive model of one scope's behaviour and counts: it counts idle blocks for each key.
//!
//! The model has one thread that lives, beside threads that come, do something and end. Each thread has a cache of its own. A later
//! thread goes on with the cache whose thread ended last. If a thread is inside a cache, only that thread settles the cache: it
//! notices invalidations and returned blocks when it enters, finds nothing idle, releases something, or leaves.

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
    /// The key of its request.
    pub key: Key,
    /// The place to which it returns.
    pub home: Home,
}

/// The place to which a block returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Home {
    /// No scope: it returns to the device.
    Plain,
    /// A cache of a scope, in a generation.
    Kept { name: usize, cache: usize, generation: u64 },
    /// A cache that releases it, since its entry keeps nothing.
    Released { name: usize, cache: usize },
}

/// One scope: the caches of its threads.
#[derive(Clone, Debug, Default)]
pub struct ScopeModel {
    caches: Vec<Cache>,
    /// The cache of the living thread.
    mine: Option<usize>,
    /// The caches whose threads have ended, the last one on top.
    orphans: Vec<usize>,
}

/// One thread's cache.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    /// The open entries.
    inside: usize,
    /// All entries so far.
    pub entries: u64,
    /// Allocations that an idle block served.
    pub hits: u64,
    /// Allocations without bytes that no idle block served.
    pub recycled: u64,
    /// Allocations that the device served.
    pub misses: u64,
    /// Blocks in use, and their bytes.
    pub busy: (u64, u64),
    /// The most bytes in use at once.
    pub high_water: u64,
    /// Invalidations so far, and those that its thread has noticed.
    generation: u64,
    noticed: u64,
    idle: HashMap<Key, u64>,
    /// Blocks that other threads dropped while the cache's own thread was inside.
    returned: Vec<Block>,
}

impl Key {
    /// All arrays without bytes have one key.
    fn of_idle(self) -> Key {
        if self.bytes() == 0 { Key { kind: 0, shape: 1 } } else { self }
    }

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

impl ScopeModel {
    /// The living thread enters the scope.
    pub fn enter(&mut self) {
        let mine = self.mine.unwrap_or_else(|| self.adopt());
        self.mine = Some(mine);
        self.caches[mine].enter();
    }

    /// The living thread leaves the scope once.
    pub fn leave(&mut self) {
        self.mine().1.leave();
    }

    /// An allocation by the living thread, in an entry that keeps blocks or does not. Returns where the block returns to.
    pub fn allocate(&mut self, name: usize, key: Key, keeps: bool) -> Home {
        let (cache, mine) = self.mine();
        match keeps {
            true => Home::Kept { name, cache, generation: mine.allocate(key) },
            false => {
                mine.count(key, false);
                Home::Released { name, cache }
            }
        }
    }

    /// A drop of a block of this scope, by the living thread or `elsewhere`.
    pub fn dropped(&mut self, block: Block, elsewhere: bool) {
        if let Home::Kept { cache, .. } | Home::Released { cache, .. } = block.home {
            self.caches[cache].dropped(block, elsewhere);
        }
    }

    /// An invalidation by the living thread or `elsewhere`.
    pub fn invalidated(&mut self, elsewhere: bool) {
        self.caches.iter_mut().for_each(|cache| cache.invalidated(elsewhere));
    }

    /// A thread entered, allocated, dropped, allocated again, and ended, while the second array lives on. Returns where that array
    /// returns to.
    pub fn visited(&mut self, name: usize, key: Key) -> Home {
        let cache = self.adopt();
        let visitor = &mut self.caches[cache];
        visitor.enter();
        let generation = visitor.allocate(key);
        let home = Home::Kept { name, cache, generation };
        visitor.dropped(Block { key, home }, false);
        visitor.allocate(key);
        visitor.leave();
        self.orphans.push(cache);
        home
    }

    /// The sum of a number over all caches.
    pub fn sum(&self, number: impl Fn(&Cache) -> u64) -> u64 {
        self.caches.iter().map(number).sum()
    }

    /// Blocks in use, and their bytes.
    pub fn busy(&self) -> (u64, u64) {
        (self.sum(|cache| cache.busy.0), self.sum(|cache| cache.busy.1))
    }

    /// Idle blocks, and their bytes.
    pub fn idle(&self) -> (u64, u64) {
        (self.sum(|cache| cache.idle().0), self.sum(|cache| cache.idle().1))
    }

    fn mine(&mut self) -> (usize, &mut Cache) {
        let mine = self.mine.expect("the living thread is inside");
        (mine, &mut self.caches[mine])
    }

    fn adopt(&mut self) -> usize {
        self.orphans.pop().unwrap_or_else(|| {
            self.caches.push(Cache::default());
            self.caches.len() - 1
        })
    }
}

impl Cache {
    fn enter(&mut self) {
        self.entries += 1;
        self.inside += 1;
        self.settle();
    }

    fn leave(&mut self) {
        self.inside -= 1;
        if self.inside == 0 {
            self.settle();
        }
    }

    /// Returns the generation of the block.
    fn allocate(&mut self, key: Key) -> u64 {
        let mut hits = self.noticed == self.generation && self.serve(key);
        if !hits {
            self.settle();
            hits = self.serve(key);
        }
        self.count(key, hits);
        self.noticed
    }

    /// A drop by its own thread or `elsewhere`.
    fn dropped(&mut self, block: Block, elsewhere: bool) {
        self.busy = (self.busy.0 - 1, self.busy.1 - block.key.bytes());
        if elsewhere && self.inside > 0 {
            self.returned.push(block);
        } else if !self.keep(block) || self.noticed != self.generation {
            self.settle();
        }
    }

    fn invalidated(&mut self, elsewhere: bool) {
        self.generation += 1;
        if !elsewhere || self.inside == 0 {
            self.settle();
        }
    }

    /// Idle blocks, and their bytes.
    fn idle(&self) -> (u64, u64) {
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

    /// Takes a block back. Returns false if the block is released.
    fn keep(&mut self, block: Block) -> bool {
        let keeps = matches!(block.home, Home::Kept { generation, .. } if generation == self.noticed);
        if keeps {
            *self.idle.entry(block.key.of_idle()).or_default() += 1;
        }
        keeps
    }

    fn serve(&mut self, key: Key) -> bool {
        let idle = self.idle.entry(key.of_idle()).or_default();
        let serves = *idle > 0;
        *idle -= u64::from(serves);
        serves
    }

    fn count(&mut self, key: Key, hits: bool) {
        self.hits += u64::from(hits);
        self.recycled += u64::from(!hits && key.bytes() == 0);
        self.misses += u64::from(!hits && key.bytes() > 0);
        self.busy = (self.busy.0 + 1, self.busy.1 + key.bytes());
        self.high_water = self.high_water.max(self.busy.1);
    }
}
