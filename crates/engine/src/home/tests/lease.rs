//! Nothing is served from a block that was taken away. No block is taken while something in it is alive. All uses of the block's
//! memory happen before it is taken.
#![allow(unsafe_code)]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread::{JoinHandle, spawn};

use super::Marked;
use crate::home::returns::Returns;
use crate::pressure::lease::{Lease, revoke};

/// The memory of a block. loom reports if two threads touch it and neither knows that the other is done.
struct Memory(UnsafeCell<()>);

// SAFETY: loom checks each access before it is made.
unsafe impl Sync for Memory {}

impl Memory {
    fn new() -> Arc<Memory> {
        Arc::new(Memory(UnsafeCell::new(())))
    }

    fn touch(&self) {
        self.0.with_mut(|_| ());
    }
}

type Block = Arc<Memory>;

/// A cache whose plan has a block with this memory.
struct Toy {
    lease: Lease<Block>,
    memory: Block,
    returns: Returns<Marked>,
}

/// Makes caches that are neighbours in memory. They are locked in the order of their addresses, and loom needs the same order in
/// each run.
fn toys<const N: usize>() -> Arc<[Toy; N]> {
    Arc::new([(); N].map(|()| Toy::new()))
}

impl Toy {
    fn new() -> Toy {
        let (lease, memory) = (Lease::new(), Memory::new());
        lease.begin(Arc::clone(&memory));
        Toy { lease, memory, returns: Returns::new() }
    }

    /// For the owner: allocates an array from the block, if the block is still there. As `Planner::serve`, and then
    /// `Planner::place`.
    fn allocate(&self) -> bool {
        let (before, live) = (self.lease.live(), self.lease.live() + 1);
        let is_there = self.lease.raise(before, live) || self.lease.insist(before, live);
        match is_there {
            true => self.memory.touch(),
            false => assert_eq!(self.lease.live(), before),
        }
        is_there
    }

    /// For the owner: takes the array back. The array's memory was used until now.
    fn drop_one(&self) {
        self.memory.touch();
        self.lease.lower(self.lease.live() - 1);
    }

    /// For the owner: gives up the block with its memory.
    fn vacate(&self) {
        if let Some(block) = self.lease.end() {
            block.touch();
        }
    }

    fn allocate_and_drop(&self) {
        if self.allocate() {
            self.drop_one();
        }
    }
}

/// A thread that needs memory. It uses what it gets.
fn take(toys: &[Toy]) -> usize {
    let taken = revoke(toys.iter().map(|toy| &toy.lease), |_| true, |idle| (0..idle.len()).collect());
    taken.iter().for_each(|block| block.touch());
    taken.len()
}

fn taking<const N: usize>(toys: &Arc<[Toy; N]>) -> JoinHandle<usize> {
    let toys = Arc::clone(toys);
    spawn(move || take(&*toys))
}

#[test]
fn an_owner_that_allocates_again_and_again() {
    loom::model(|| {
        let toys = toys::<1>();
        let (toy, other) = (&toys[0], taking(&toys));
        let served = [(); 2].map(|()| {
            let is_served = toy.allocate();
            if is_served {
                toy.drop_one();
            }
            is_served
        });
        assert!(served[0] || !served[1], "what was taken does not come back");
        let taken = other.join().unwrap();
        assert_eq!(toy.lease.is_lost(), taken == 1);
        assert_eq!(toy.lease.raise(0, 1), taken == 0, "a lease that was not revoked goes on as before");
    });
}

#[test]
fn an_array_that_stays_alive() {
    loom::model(|| {
        let toys = toys::<1>();
        let toy = &toys[0];
        assert!(toy.allocate());
        let other = taking(&toys);
        assert!(toy.allocate());
        toy.drop_one();
        assert_eq!(other.join().unwrap(), 0);
        toy.drop_one();
        assert_eq!(take(&*toys), 1);
        assert!(!toy.allocate());
    });
}

/// The owner leaves, and gives the block to another thread.
#[test]
fn an_owner_that_gives_the_block_up() {
    loom::model(|| {
        let toys = toys::<1>();
        let (toy, other) = (&toys[0], taking(&toys));
        toy.allocate_and_drop();
        toy.vacate();
        other.join().unwrap();
        assert_eq!(take(&*toys), 0, "there is one block");
    });
}

/// The owner finds the block gone, and another block takes its place.
#[test]
fn an_owner_that_begins_anew() {
    loom::model(|| {
        let toys = toys::<1>();
        let (toy, other) = (&toys[0], taking(&toys));
        if toy.lease.is_lost() {
            assert!(toy.lease.end().is_none());
            toy.lease.begin(Memory::new());
            assert!(toy.lease.insist(0, 1), "nobody wants this one");
        }
        other.join().unwrap();
    });
}

/// Another thread is the last to use the array, and drops it.
#[test]
fn a_drop_by_another_thread() {
    loom::model(|| {
        let (toys, alive) = (toys::<1>(), Arc::default());
        let toy = &toys[0];
        assert!(toy.allocate());
        let dropping = spawn({
            let toys = Arc::clone(&toys);
            move || {
                toys[0].memory.touch();
                toys[0].returns.push(1, Marked::new(1, &alive));
            }
        });
        let other = taking(&toys);
        for _ in toy.returns.take() {
            toy.lease.lower(toy.lease.live() - 1);
        }
        let taken = other.join().unwrap();
        dropping.join().unwrap();
        assert!(taken == 0 || toy.returns.is_empty());
    });
}

#[test]
fn two_threads_in_need_and_two_leases() {
    loom::model(|| {
        let toys = toys::<2>();
        let others = [taking(&toys), taking(&toys)];
        toys[1].allocate_and_drop();
        let taken: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert_eq!(taken + take(&*toys), 2, "each block once");
    });
}

/// At all times but one moment, an array is alive in one of the two blocks. A thread that needs memory and finds no idle block is
/// right.
#[test]
fn one_of_two_blocks_is_always_idle() {
    loom::model(|| {
        let toys = toys::<2>();
        let other = taking(&toys);
        toys[0].allocate_and_drop();
        toys[1].allocate_and_drop();
        assert!(other.join().unwrap() > 0, "one of them was idle at any moment");
    });
}
