//! Work of one life of memory never touches the next life, however late the work is, on whichever streams, and whichever policy
//! serves the memory.
//!
//! In each round slow work uses an old life in one way, and a new life with other contents begins at the same address.
//! `ROUNDS` sets the number of rounds. `cargo test --release -p gpucache-tests --test streams lives`.

use gpucache::prelude::*;
#[cfg(feature = "cuda")]
use gpucache_tests::late::LateGpu;
use gpucache_tests::late::{Late, LateHost};
use gpucache_tests::turn;

const LEN: usize = 1024;
/// Entries after which a scope has learned its plan.
const WARM: usize = 8;

/// How the old life is used.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    SameStream,
    ForeignRead,
    ForeignWrite,
    TwoForeignReaders,
    ForeignWriteThenHome,
    ForeignReadThenHomeWrite,
    DroppedByAnotherThread,
    LeftAndEntered,
}

const USES: [Use; 8] = [
    Use::SameStream,
    Use::ForeignRead,
    Use::ForeignWrite,
    Use::TwoForeignReaders,
    Use::ForeignWriteThenHome,
    Use::ForeignReadThenHomeWrite,
    Use::DroppedByAnotherThread,
    Use::LeftAndEntered,
];

fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(30)
}

struct Streams<'m, M: Late> {
    machine: &'m M,
    home: M::Device,
    others: [M::Device; 2],
    /// The values that the readers saw.
    seen: [Array<u32, M::Device>; 2],
    second: Use,
}

impl<'m, M: Late> Streams<'m, M> {
    fn new(machine: &'m M) -> Self {
        let [home, a, b] = [(); 3].map(|()| machine.new_stream());
        let seen = [&a, &b].map(|stream| Array::zeros(stream, LEN).unwrap());
        Streams { machine, home, others: [a, b], seen, second: Use::SameStream }
    }

    /// The old life: an array of `value` that is used and dropped.
    fn old_life(&mut self, value: u32) -> u64 {
        let Streams { machine, home, others: [a, b], seen: [x, y], second } = self;
        let mut array = Array::<u32, _>::full(home, LEN, value).unwrap();
        let address = machine.address(&array);
        match second {
            Use::SameStream => machine.copy(home, x, &array, true),
            Use::ForeignRead | Use::LeftAndEntered => machine.copy(a, x, &array, true),
            Use::ForeignWrite => {
                machine.copy(home, x, &array, false);
                machine.fill(a, &mut array, value + 1, true);
            }
            Use::TwoForeignReaders => {
                machine.copy(a, x, &array, true);
                machine.copy(b, y, &array, false);
            }
            Use::ForeignWriteThenHome => {
                machine.copy(home, x, &array, false);
                machine.fill(a, &mut array, value, true);
                machine.copy(home, y, &array, false);
            }
            Use::ForeignReadThenHomeWrite => {
                machine.copy(a, x, &array, true);
                machine.fill(home, &mut array, value + 1, false);
            }
            Use::DroppedByAnotherThread => {
                machine.copy(a, x, &array, true);
                std::thread::scope(|threads| threads.spawn(|| drop(array)).join().unwrap());
                return address;
            }
        }
        address
    }

    /// Waits for all work, and checks what the readers saw of the old life.
    fn check(&mut self, value: u32, new: &Array<u32, M::Device>) {
        self.others.iter().chain([&self.home]).for_each(|stream| stream.synchronize().unwrap());
        assert_eq!(new.to_vec().unwrap(), [!value; LEN], "the new life");
        assert_eq!(self.seen[0].to_vec().unwrap(), [value; LEN], "what was seen of the old life");
        if matches!(self.second, Use::TwoForeignReaders | Use::ForeignWriteThenHome) {
            assert_eq!(self.seen[1].to_vec().unwrap(), [value; LEN], "what was seen second of the old life");
        }
    }

    /// The new life. Returns whether its address is `old`.
    fn new_life(&mut self, value: u32, old: u64) -> bool {
        let new = Array::<u32, _>::full(&self.home, LEN, !value).unwrap();
        let is_recycled = self.machine.address(&new) == old;
        self.check(value, &new);
        is_recycled
    }

    /// One entry with both lives, or one entry for each. Returns whether the new life had the address of the old one.
    fn round(&mut self, value: u32, entered: &dyn Fn(&mut dyn FnMut())) -> bool {
        let (mut old, mut is_recycled) = (0, false);
        if self.second == Use::LeftAndEntered {
            entered(&mut || old = self.old_life(value));
            entered(&mut || is_recycled = self.new_life(value, old));
        } else {
            entered(&mut || {
                old = self.old_life(value);
                is_recycled = self.new_life(value, old);
            });
        }
        is_recycled
    }
}

/// All uses with one kind of scope. Only rounds in which memory was recycled count.
fn lives<M: Late>(machine: &M, service: &str, enter: impl Fn(&str, &mut dyn FnMut())) {
    for second in USES {
        let name = format!("lives {service} {second:?} {}", std::any::type_name::<M>());
        let mut streams = Streams::new(machine);
        streams.second = second;
        let entered = |act: &mut dyn FnMut()| enter(&name, act);
        let recycled = (0..(WARM + rounds()) as u32).filter(|&value| streams.round(value, &entered)).count();
        assert!(recycled >= rounds() / 2, "{name}: memory was recycled {recycled} times");
        let _ = invalidate(&name);
    }
}

fn planned(name: &str, act: &mut dyn FnMut()) {
    gpucache::cache_scope!(name = name, { act() });
}

fn listed(name: &str, act: &mut dyn FnMut()) {
    gpucache::cache_scope!(name = name, recycle = "keyed", { act() });
}

fn ranged(name: &str, act: &mut dyn FnMut()) {
    gpucache::cache_scope!(name = name, recycle = "range", { act() });
}

#[test]
fn planned_lives_on_the_host() {
    let _turn = turn();
    lives(&LateHost, "planned", planned);
}

#[test]
fn listed_lives_on_the_host() {
    let _turn = turn();
    lives(&LateHost, "listed", listed);
}

#[test]
fn ranged_lives_on_the_host() {
    let _turn = turn();
    lives(&LateHost, "ranged", ranged);
}

/// All kinds of scopes on a GPU. Without a GPU it passes, and prints that it did nothing.
#[cfg(feature = "cuda")]
fn lives_on_a_gpu(by_cudarc: bool) {
    let Some(gpu) = LateGpu::get(by_cudarc) else { return };
    let builder = if by_cudarc { "by cudarc" } else { "by Cuda" };
    lives(&gpu, &format!("planned {builder}"), planned);
    lives(&gpu, &format!("listed {builder}"), listed);
    lives(&gpu, &format!("ranged {builder}"), ranged);
}

#[test]
#[cfg(feature = "cuda")]
fn lives_on_a_gpu_launched_by_its_handle() {
    lives_on_a_gpu(false);
}

#[test]
#[cfg(feature = "cuda")]
fn lives_on_a_gpu_launched_by_cudarc() {
    lives_on_a_gpu(true);
}

/// Entries of one scope on two streams by turns, so that the plans move from stream to stream while slow work still uses their memory. Every
/// element is checked, of arrays that leave their entry too.
fn by_turns<M: Late>(machine: &M) {
    let name = format!("lives by turns, {}", std::any::type_name::<M>());
    let streams = [machine.new_stream(), machine.new_stream()];
    let mut results = streams.each_ref().map(|stream| Array::<u32, _>::zeros(stream, LEN).unwrap());
    let (mut kept, mut planned) = (Vec::new(), 0);
    for entry in 0..(WARM + rounds()) as u32 {
        // In the second half, the scope changes its stream in every fourth entry alone.
        let turn = if entry < rounds() as u32 / 2 { entry } else { entry / 4 };
        let place = turn as usize % 2;
        let (stream, out) = (&streams[place], &mut results[place]);
        gpucache::cache_scope!(name = &name, {
            for number in 0..4 {
                let mut array = Array::<u32, _>::full(stream, LEN, 0).unwrap();
                machine.fill(stream, &mut array, entry * 4 + number, true);
                machine.copy(stream, out, &array, number == 2);
                if number == 0 {
                    kept.push((entry * 4, array));
                }
            }
        });
        if kept.len() > 2 {
            let (value, old) = kept.remove(0);
            assert_eq!(old.to_vec().unwrap(), [value; LEN], "an array that left its entry");
        }
        assert_eq!(out.to_vec().unwrap(), [entry * 4 + 3; LEN], "entry {entry}");
        planned = gpucache::stats(&name).unwrap().served.planned.allocations;
    }
    assert!(planned > rounds() as u64, "plans served {planned} arrays");
    drop(kept);
    let _ = invalidate(&name);
}

#[test]
fn lives_by_turns_on_the_host() {
    let _turn = turn();
    by_turns(&LateHost);
}

#[test]
#[cfg(feature = "cuda")]
fn lives_by_turns_on_a_gpu() {
    LateGpu::get(false).iter().for_each(by_turns);
}
