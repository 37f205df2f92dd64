//! Three threads inside planned scopes of a device that has room for two of their blocks. They take the blocks away from each other
//! all the time. No array ever lies in memory of another array, and no request fails while there is memory for it.
//!
//! `ENTRIES` sets how many entries each thread makes.
#![cfg(target_os = "linux")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};

use fastrand::Rng;
use gpucache::device::Device;
use gpucache::{Array, cache_scope, invalidate, stats};
use gpucache_tests::paged::{PAGE, Paged};
use gpucache_tests::process::number;
use gpucache_tests::sync::Mutex;
use gpucache_tests::turn;

const ENTRIES: u64 = if cfg!(debug_assertions) { 10_000 } else { 100_000 };
const THREADS: u32 = 3;
/// The allocations of a part of an entry, in pages. At most two are alive at a time. Either many sizes, or so few that a scope
/// would keep idle memory in its lists.
const MANY: [[usize; 5]; 2] = [[2, 11, 3, 10, 4], [9, 5, 8, 6, 7]];
const FEW: [[usize; 5]; 2] = [[4, 10, 4, 10, 4], [10, 4, 4, 10, 4]];
/// The most pages that are alive at once.
const PEAK: u64 = 14;
/// The entries after which a scope has its plan, while it has the device to itself.
const WARM: u64 = 8;

/// The number of words of a page that are written.
const WORDS: usize = 8;
const STRIDE: usize = PAGE as usize / 4 / WORDS;

/// An array that knows its contents.
struct Marked {
    array: Array<u32, Paged>,
    mark: u32,
}

impl Marked {
    fn new(device: &Paged, pages: usize, mark: u32) -> gpucache::Result<Marked> {
        // SAFETY: every word is written before it is read.
        #[allow(unsafe_code)]
        let array = unsafe { Array::uninit(device, pages * WORDS * STRIDE) }?;
        let marked = Marked { array, mark };
        marked.words().for_each(|(place, word)| {
            // SAFETY: the memory is this array's alone. The test shows whether that is so.
            #[allow(unsafe_code)]
            unsafe {
                place.write_volatile(word)
            }
        });
        Ok(marked)
    }

    /// The places of the written words, and their values.
    fn words(&self) -> impl Iterator<Item = (*mut u32, u32)> {
        let (start, mark) = (self.array.address() as usize, self.mark);
        let place = move |word: usize| std::ptr::with_exposed_provenance_mut::<u32>(start + 4 * STRIDE * word);
        (0..self.array.len() / STRIDE).map(move |word| (place(word), mark.wrapping_add(word as u32)))
    }

    fn check(&self) {
        // SAFETY: as above.
        #[allow(unsafe_code)]
        let found = self.words().find(|&(place, word)| unsafe { place.read_volatile() } != word);
        assert!(found.is_none(), "somebody else wrote the array of mark {:x}", self.mark);
    }
}

/// How many threads may have anything alive at once.
struct Permits(AtomicU32);

struct Permit<'a>(&'a Permits);

impl Permits {
    fn wait(&self) -> Permit<'_> {
        while self.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err() {
            std::thread::yield_now();
        }
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, SeqCst);
    }
}

fn pause(rng: &mut Rng) {
    match rng.u32(0..8) {
        0 => std::thread::yield_now(),
        1 => (0..rng.u32(0..2000)).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

/// Runs a part of an entry. Nothing is alive after it.
fn play(device: &Paged, sizes: [usize; 5], mark: &mut u32) {
    let mut before: Option<Marked> = None;
    for pages in sizes {
        *mark += 1 << 12;
        let next = Marked::new(device, pages, *mark).expect("there is memory for what two threads need");
        if let Some(before) = before.replace(next) {
            before.check();
        }
    }
    before.unwrap().check();
}

fn on_threads(run: &(impl Fn(u32) + Sync)) {
    std::thread::scope(|threads| {
        let started: Vec<_> = (0..THREADS).map(|thread| threads.spawn(move || run(thread))).collect();
        started.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// At most two of three threads have anything alive at once, and there is memory for two.
fn check(name: &str, parts: [[usize; 5]; 2]) {
    let _turn = turn();
    let device = Paged::new(2 * PEAK + 4);
    let permits = Permits(AtomicU32::new(THREADS - 1));
    let entries = number("ENTRIES").unwrap_or(ENTRIES);
    let (warming, start) = (Mutex::new(()), Barrier::new(THREADS as usize));
    let run = |thread: u32| {
        let (name, rng) = (format!("{name} {thread}"), &mut Rng::with_seed(thread.into()));
        let mut mark = thread << 28;
        let mut entry = || {
            cache_scope!(name = &*name, {
                for sizes in parts {
                    let permit = permits.wait();
                    play(&device, sizes, &mut mark);
                    drop(permit);
                    pause(rng);
                }
            });
        };
        let warm = warming.lock();
        (0..WARM).for_each(|_| entry());
        drop(warm);
        start.wait();
        (0..entries).for_each(|_| entry());
    };
    on_threads(&run);
    finish(&device, name, entries);
}

#[test]
fn there_is_memory_for_those_who_need_it() {
    check("of many sizes", MANY);
}

#[test]
fn there_is_memory_for_those_who_need_it_in_few_sizes() {
    check("of few sizes", FEW);
}

fn finish(device: &Paged, name: &str, entries: u64) {
    let names: Vec<String> = (0..THREADS).map(|thread| format!("{name} {thread}")).collect();
    let planned: Vec<u64> = names.iter().map(|name| stats(name).unwrap().served.planned.allocations).collect();
    println!("planned of {}: {planned:?}", 10 * entries);
    // Between a twentieth of them and all of them, depending on how the threads take turns. Beside a load, a thread may get few.
    assert!(planned.iter().all(|&planned| planned > 0), "each thread uses blocks: {planned:?}");
    assert!(planned.iter().sum::<u64>() > entries / 8, "blocks come and go, and are used meanwhile: {planned:?}");
    names.iter().for_each(|name| _ = invalidate(name));
    device.trim();
    assert_eq!(device.memory().bytes, 0);
}

/// The threads also send each other arrays, and may find no memory.
#[test]
fn arrays_travel_meanwhile() {
    let _turn = turn();
    let device = Paged::new(2 * PEAK + 4);
    let entries = number("ENTRIES").unwrap_or(ENTRIES);
    let (senders, inboxes): (Vec<Sender<Marked>>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    let inboxes: Vec<Mutex<Receiver<Marked>>> = inboxes.into_iter().map(Mutex::new).collect();
    on_threads(&|thread| travel(&device, thread, entries, &senders, &inboxes[thread as usize].lock().unwrap()));
    drop(inboxes);
    drop(senders);
    finish(&device, "travelling", entries);
}

fn travel(device: &Paged, thread: u32, entries: u64, senders: &[Sender<Marked>], inbox: &Receiver<Marked>) {
    let (name, rng) = (format!("travelling {thread}"), &mut Rng::with_seed(thread.into()));
    let mut mark = thread << 28;
    for _ in 0..entries {
        cache_scope!(name = &*name, {
            for pages in MANY.into_iter().flatten() {
                mark += 1 << 12;
                match Marked::new(device, pages, mark) {
                    // Few arrays, so that most blocks have nothing alive in them.
                    Ok(array) if rng.u32(0..50) == 0 => _ = senders[rng.usize(0..senders.len())].send(array),
                    Ok(array) => array.check(),
                    Err(error) => assert!(error.is_out_of_memory(), "{error}"),
                }
                inbox.try_iter().for_each(|array| array.check());
                pause(rng);
            }
        });
    }
}
