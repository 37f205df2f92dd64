//! Random programs compared with the model of `world`, and tests of single rules.

mod reserved;
mod unordered;
mod wishes;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;

use self::world::World;
use super::{Epoch, Streams, Tag};
use crate::device::{Memory, Stream};

#[derive(Clone, Debug)]
enum Step {
    /// A stream claims a free cell, and the cell beside it if that is free. It works on both, and frees them as one.
    Use {
        stream: usize,
        cell: usize,
        keeps: bool,
    },
    /// A stream uses memory that it does not own, and later work of the owner waits for that use.
    Lend {
        stream: usize,
        owner: usize,
        work_between: usize,
    },
    Advance {
        stream: usize,
        most: usize,
    },
    Replace(usize),
    Fail,
    Capture(usize),
    /// A capture begins during the next recording of an event.
    CaptureMeanwhile,
    LookWhatIsIdle,
    Retire,
}

fn step() -> impl Strategy<Value = Step> {
    let (stream, cell) = (0..STREAMS, 0..CELLS);
    prop_oneof![
        10 => (stream.clone(), cell, any::<bool>()).prop_map(|(stream, cell, keeps)| Step::Use { stream, cell, keeps }),
        3 => (stream.clone(), stream.clone(), 0usize..3)
            .prop_map(|(stream, owner, work_between)| Step::Lend { stream, owner, work_between }),
        5 => (stream.clone(), 1usize..6).prop_map(|(stream, most)| Step::Advance { stream, most }),
        1 => stream.clone().prop_map(Step::Replace),
        1 => Just(Step::Fail),
        1 => stream.prop_map(Step::Capture),
        1 => Just(Step::CaptureMeanwhile),
        1 => Just(Step::LookWhatIsIdle),
        1 => Just(Step::Retire),
    ]
}

const STREAMS: usize = 4;
const CELLS: usize = 6;

/// A stretch of free memory: its tags, and the last work of each lane on it.
#[derive(Clone, Debug)]
struct Cell {
    tags: Vec<Tag>,
    uses: Vec<(usize, usize)>,
}

impl Cell {
    /// Joins both cells, with as few tags as possible.
    fn beside(&self, other: &Cell) -> Cell {
        let mut tags = self.tags.clone();
        for &tag in &other.tags {
            match tags.iter_mut().find_map(|known| known.merge(tag).map(|merged| (known, merged))) {
                Some((known, merged)) => *known = merged,
                None => tags.push(tag),
            }
        }
        Cell { tags, uses: [&self.uses[..], &other.uses[..]].concat() }
    }
}

struct Program {
    world: Arc<World>,
    memory: Arc<Memory>,
    streams: Streams,
    handles: Vec<(Stream, usize)>,
    cells: Vec<Cell>,
    /// The epochs in which memory was freed or used.
    epochs: BTreeSet<(usize, u64)>,
}

impl Program {
    fn new() -> Program {
        let (world, memory) = (Arc::<World>::default(), Arc::<Memory>::default());
        let handles = (0..STREAMS).map(|_| world.stream()).collect();
        let streams = Streams::new(memory.meter().clone());
        let cells = vec![Cell { tags: Vec::new(), uses: Vec::new() }; CELLS];
        Program { world, memory, streams, handles, cells, epochs: BTreeSet::new() }
    }

    fn calls(&self) -> [u64; 3] {
        self.memory.meter().orders()
    }

    /// The free memory of two neighbours, joined.
    fn merged(&self, cell: usize) -> Cell {
        let (left, right) = (&self.cells[cell], &self.cells[(cell + 1) % CELLS]);
        left.beside(right)
    }

    fn use_memory(&mut self, stream: usize, cell: usize, keeps: bool) {
        let (stream, lane) = self.handles[stream].clone();
        let Cell { tags, uses } = self.merged(cell);
        let me = self.streams.attend(&stream);
        if tags.iter().all(|&tag| self.streams.may_use(me, tag)) {
            let is_behind = |&(user, number): &(usize, usize)| self.world.is_behind(lane, user, number);
            assert!(uses.iter().all(is_behind), "{lane} may use what it is not behind: {uses:?}");
        }
        let (before, is_own) = (self.calls(), uses.iter().all(|&(user, _)| user == lane));
        let answer = tags.iter().try_for_each(|&tag| self.streams.claim(&stream, tag));
        assert!(!is_own || answer.is_ok() && self.calls() == before, "a stream orders itself");
        if answer.is_err() {
            return;
        }
        for &(user, number) in &uses {
            assert!(self.world.is_behind(lane, user, number), "{lane} is not behind work {number} of {user}: {uses:?}");
        }
        let number = self.world.work(lane);
        let tag = self.streams.free(&stream);
        let epoch = self.streams.used(&stream);
        self.note(lane, epoch);
        let own = Cell { tags: vec![tag], uses: vec![(lane, number)] };
        let merged = if keeps { own } else { own.beside(&self.merged(cell)) };
        self.cells[cell] = merged.clone();
        self.cells[(cell + 1) % CELLS] = merged;
    }

    fn note(&mut self, lane: usize, Epoch(epoch): Epoch) {
        self.epochs.insert((lane, epoch));
    }

    fn lend(&mut self, user: usize, owner: usize, work_between: usize) {
        let ((user, user_lane), (owner, owner_lane)) = (self.handles[user].clone(), self.handles[owner].clone());
        let number = self.world.work(user_lane);
        let epoch = self.streams.used(&user);
        self.note(user_lane, epoch);
        if work_between > 0 {
            user.wanted_cell().store(true, Relaxed);
        }
        (0..work_between).for_each(|_| _ = self.world.work(user_lane));
        if self.streams.order(&owner, &user, epoch).is_ok() {
            assert!(self.world.is_behind(owner_lane, user_lane, number), "a loan is not waited for");
            let before = self.calls();
            self.streams.order(&owner, &user, epoch).unwrap();
            assert_eq!(self.calls(), before, "what is ordered is ordered again");
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Use { stream, cell, keeps } => self.use_memory(stream, cell, keeps),
            Step::Lend { stream, owner, work_between } => self.lend(stream, owner, work_between),
            Step::Advance { stream, most } => self.world.advance(self.handles[stream].1, most),
            Step::Replace(stream) => self.handles[stream] = self.world.stream(),
            Step::Fail => self.world.fails.store(true, Relaxed),
            Step::Capture(stream) => {
                let lane = self.handles[stream].1;
                let capturing = &mut *self.world.capturing.lock().unwrap();
                _ = capturing.remove(&lane) || capturing.insert(lane);
            }
            Step::CaptureMeanwhile => self.world.begins.store(true, Relaxed),
            Step::LookWhatIsIdle => self.look_what_is_idle(),
            Step::Retire => self.streams.retire(),
        }
    }

    fn look_what_is_idle(&mut self) {
        if self.streams.look(false).is_ok() {
            let is_idle = |cell: &&Cell| cell.tags.iter().all(|&tag| self.streams.is_idle(tag));
            for cell in self.cells.iter().filter(is_idle) {
                for &(user, number) in &cell.uses {
                    assert!(self.world.lanes.lock().unwrap()[user].done >= number, "idle memory is in use");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn whoever_claims_memory_is_behind_all_who_used_it(steps in prop::collection::vec(step(), 1..120)) {
        let mut program = Program::new();
        for step in &steps {
            program.step(step);
            program.world.fails.fetch_and(matches!(step, Step::Fail), Relaxed);
        }
        // Events that failed or were captured are counted too, one for each attempt.
        let failed = steps.iter().filter(|step| matches!(step, Step::Fail | Step::CaptureMeanwhile)).count();
        let [events, ..] = program.calls();
        prop_assert!(events as usize <= program.epochs.len() + failed, "{events} events, {:?}", program.epochs);
    }
}

/// Streams on one memory, each with the number of its lane.
type Some<const N: usize> = (Arc<World>, Arc<Memory>, Streams, [(Stream, usize); N]);

fn some<const N: usize>() -> Some<N> {
    let (world, memory) = (Arc::<World>::default(), Arc::<Memory>::default());
    let streams = Streams::new(memory.meter().clone());
    let handles = std::array::from_fn(|_| world.stream());
    (world, memory, streams, handles)
}

#[test]
fn one_event_and_one_wait_for_all_that_was_freed() {
    let (world, memory, mut streams, [(a, lane), (b, _), (c, _)]) = some();
    world.work(lane);
    let tags = [(); 100].map(|()| streams.free(&a));
    assert_eq!(memory.meter().orders(), [0, 0, 0]);
    tags.iter().for_each(|&tag| streams.claim(&a, tag).unwrap());
    assert_eq!(memory.meter().orders(), [0, 0, 0]);
    tags.iter().for_each(|&tag| streams.claim(&b, tag).unwrap());
    assert_eq!(memory.meter().orders(), [1, 0, 1]);
    tags.iter().for_each(|&tag| streams.claim(&c, tag).unwrap());
    assert_eq!(memory.meter().orders(), [1, 1, 2]);
}

#[test]
fn an_event_that_a_capture_got_in_between_is_neither_queried_nor_waited_for() {
    let (world, _, mut streams, [(a, lane), (b, _)]) = some();
    world.work(lane);
    let tag = streams.free(&a);
    world.begins.store(true, Relaxed);
    assert!(streams.claim(&b, tag).unwrap_err().is_unavailable());
    streams.look(true).unwrap();
    assert!(!streams.is_idle(tag));
    world.capturing.lock().unwrap().clear();
    streams.claim(&b, tag).unwrap();
    world.advance(lane, 1);
    streams.look(true).unwrap();
    assert!(streams.is_idle(tag));
}

#[test]
fn an_answer_is_remembered_and_the_event_used_again() {
    let (world, memory, mut streams, [(a, lane), (b, _), (c, _)]) = some();
    world.work(lane);
    let old = streams.free(&a);
    streams.claim(&b, old).unwrap();
    world.advance(lane, 1);
    streams.claim(&c, old).unwrap();
    assert_eq!(memory.meter().orders(), [1, 1, 1]);
    let (d, _) = world.stream();
    streams.claim(&d, old).unwrap();
    assert_eq!(memory.meter().orders(), [1, 1, 1]);

    for round in 1..=10 {
        world.work(lane);
        let tag = streams.free(&a);
        streams.claim(&b, tag).unwrap();
        world.advance(lane, 1);
        // The event of the first round, which was found complete above, serves the second. From then on the last event is queried.
        assert_eq!(memory.meter().orders(), [1 + round, round, 1 + round]);
    }
}

#[test]
fn streams_are_kept_while_their_work_may_use_memory() {
    let (world, memory, mut streams, [(a, lane), (b, _)]) = some();
    world.work(lane);
    let tag = streams.free(&a);
    let backend = Arc::downgrade(a.shared_backend());
    drop(a);
    streams.retire();
    assert!(backend.upgrade().is_some(), "its work is not done");
    streams.claim(&b, tag).unwrap();
    assert_eq!(memory.meter().orders()[2], 1);
    world.advance(lane, 1);
    streams.retire();
    assert_eq!(streams.take_ended().len(), 1);
    assert!(backend.upgrade().is_none(), "nobody needs it");
    // Another stream in the slot: anybody may use the old memory, and the new stream's own memory is ordered.
    let (c, other) = world.stream();
    world.work(other);
    let own = streams.free(&c);
    let before = memory.meter().orders();
    streams.claim(&c, tag).unwrap();
    streams.claim(&b, tag).unwrap();
    assert_eq!(memory.meter().orders(), before);
    streams.claim(&b, own).unwrap();
    assert_eq!(memory.meter().orders()[2], 2);
}

#[test]
fn a_stream_in_anothers_slot_has_waited_for_nobody() {
    let (world, memory, mut streams, [(a, lane), (b, _)]) = some();
    world.work(lane);
    let tag = streams.free(&a);
    streams.claim(&b, tag).unwrap();
    drop(b);
    // The new stream gets the slot at once, since the previous one used nothing.
    let (c, _) = world.stream();
    streams.claim(&c, tag).unwrap();
    assert_eq!(memory.meter().orders(), [1, 1, 2]);
}

#[test]
fn a_capture_is_left_alone() {
    let (world, memory, mut streams, [(a, lane), (b, other)]) = some();
    world.work(lane);
    let [first, second] = [streams.free(&a), streams.free(&a)];
    world.capturing.lock().unwrap().insert(other);
    assert!(streams.claim(&b, first).unwrap_err().is_unavailable());
    assert_eq!(memory.meter().orders(), [0, 0, 0]);
    world.capturing.lock().unwrap().remove(&other);
    streams.claim(&b, first).unwrap();
    world.capturing.lock().unwrap().insert(other);
    streams.claim(&b, second).unwrap();
    // The captured stream that freed the memory is not queried either. A closed epoch is waited for, an open one is refused.
    world.capturing.lock().unwrap().insert(lane);
    let open = streams.free(&a);
    let (c, _) = world.stream();
    streams.claim(&c, first).unwrap();
    assert!(streams.claim(&c, open).unwrap_err().is_unavailable());
    assert_eq!(memory.meter().orders(), [1, 0, 2]);
    streams.look(true).unwrap();
    assert!(!streams.is_idle(open) && memory.meter().orders() == [1, 0, 2]);
}

/// Another thread may capture its stream at any moment. So while it lives, only that thread records events there.
#[test]
fn an_event_of_another_threads_stream_is_asked_for() {
    let (world, memory, streams, [(a, lane), (b, _)]) = some();
    world.is_strict.store(true, Relaxed);
    let streams = std::sync::Mutex::new(streams);
    let (tell, told) = std::sync::mpsc::channel();
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|threads| {
        // If a check fails, this is dropped here, and the worker ends.
        let go_on = go_on;
        let (world, streams, a) = (&world, &streams, &a);
        let worker = threads.spawn(move || {
            for _ in 0..3 {
                world.work(lane);
                let mut streams = streams.lock().unwrap();
                streams.attend(a);
                tell.send(streams.free(a)).unwrap();
                drop(streams);
                let _ = waits.recv();
            }
        });
        let first = told.recv().unwrap();
        let may_use = |tag| {
            let mut streams = streams.lock().unwrap();
            let me = streams.attend(&b);
            streams.may_use_now(me, tag).unwrap()
        };
        assert!(!may_use(first));
        streams.lock().unwrap().look(false).unwrap();
        assert!(!streams.lock().unwrap().is_idle(first) && a.is_wanted() && memory.meter().orders()[0] == 0);
        // The thread that works there records the event at its next call.
        go_on.send(()).unwrap();
        let second = told.recv().unwrap();
        assert!(!a.is_wanted() && !may_use(first), "its work is not done");
        world.advance(lane, 2);
        assert!(may_use(first) && !may_use(second) && memory.meter().orders() == [1, 2, 0]);
        // A claim records the event anyway, and waits for it.
        streams.lock().unwrap().claim(&b, second).unwrap();
        assert!(may_use(second) && memory.meter().orders()[2] == 1);
        go_on.send(()).unwrap();
        let third = told.recv().unwrap();
        assert!(!may_use(third));
        go_on.send(()).unwrap();
        // The scope alone would not wait until the thread's local values are dropped.
        worker.join().unwrap();
    });
    // No thread works on the stream any more.
    let mut streams = streams.into_inner().unwrap();
    let last = streams.free(&a);
    world.advance(lane, usize::MAX);
    let me = streams.attend(&b);
    assert!(streams.may_use_now(me, last).unwrap());
}
