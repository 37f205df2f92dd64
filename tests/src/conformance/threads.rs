//! Several threads: each has its own blocks while it lives, arrays may go to any thread, and no end of a thread loses memory. The
//! next thread gets the idle memory.

use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gpucache::device::Device;
use gpucache::{Array, Result, cache_scope, invalidate};

use super::{Context, assert_pattern, busy_and_idle, hits_and_supplies, memory, patterned, stats_of, touch};

/// Runs `act` on a thread of its own, to the very end of the thread.
fn on_a_thread<R: Send>(act: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    std::thread::scope(|threads| threads.spawn(act).join().expect("no panic"))
}

/// Waits until `is_so` holds, at most for a time that no healthy machine needs. Returns whether it holds.
fn soon(is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Idle blocks of one thread do not serve another one while both live.
pub fn each_thread_has_its_own_blocks<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let enter = || -> Result<()> { cache_scope!(name = &name, { touch::<u8, D>(device, 64) }) };
    enter()?;
    on_a_thread(|| {
        enter()?;
        assert_eq!(hits_and_supplies(&name), (0, 2));
        assert_eq!(busy_and_idle(&name), (0, 2));
        enter()
    })?;
    enter()?;
    assert_eq!(hits_and_supplies(&name), (2, 2));
    Ok(())
}

/// An array that another thread drops serves its own thread again, while that thread is outside the scope.
pub fn a_drop_elsewhere_comes_home<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    for round in 0..3 {
        let array = cache_scope!(name = &name, { patterned(device, 30, 1)? });
        on_a_thread(|| {
            assert_pattern(&array, 1);
            cache_scope!(name = &name, { drop(array) });
            Ok(())
        })?;
        assert_eq!((hits_and_supplies(&name), busy_and_idle(&name)), ((round, 1), (0, 1)));
    }
    Ok(())
}

/// The same while its own thread is inside the scope: the next request finds it.
pub fn a_drop_elsewhere_while_inside<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    cache_scope!(name = &name, {
        for round in 0..3 {
            let array = patterned(device, 30, 1)?;
            assert_eq!(hits_and_supplies(&name), (round, 1));
            on_a_thread(|| {
                drop(array);
                Ok(())
            })?;
            assert_eq!(busy_and_idle(&name), (0, 1));
        }
    });
    cache_scope!(name = &name, { touch::<u32, D>(device, 30)? });
    assert_eq!(hits_and_supplies(&name), (3, 1));
    Ok(())
}

/// Another thread drops an array while this one leaves the scope, and a third one gives idle memory back. One of the three releases the
/// block that no list keeps: the third one if it has the cache at that moment, and then a little later.
pub fn a_drop_elsewhere_at_the_exit<D: Device>(device: &D, context: &Context) -> Result<()> {
    const ROUNDS: usize = 5000;
    let name = context.name("scope");
    let before = device.memory().bytes;
    // Both wait for the same number, so that they go on at the same moment.
    let (arrived, (sender, receiver)) = (AtomicUsize::new(0), mpsc::channel());
    let meet = |meeting: usize| {
        arrived.fetch_add(1, SeqCst);
        // Spins as long as the other thread can be running, too.
        for spins in 0.. {
            match arrived.load(SeqCst) {
                enough if enough >= 2 * meeting => break,
                _ if spins > 1000 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    };
    std::thread::scope(|threads| -> Result<()> {
        threads.spawn(|| {
            for (round, array) in receiver.into_iter().enumerate() {
                meet(2 * round + 1);
                // Arrives a little later from round to round, and then begins again.
                (0..round % 100).for_each(|_| std::hint::spin_loop());
                drop::<Array<u8, D>>(array);
                meet(2 * round + 2);
            }
        });
        threads.spawn(|| (0..ROUNDS).for_each(|_| _ = device.trim()));
        let sender = sender;
        for round in 0..ROUNDS {
            cache_scope!(name = &name, recycle = "off", {
                drop(sender.send(Array::<u8, D>::zeros(device, 64)?));
                meet(2 * round + 1);
            });
            meet(2 * round + 2);
            let is_released = soon(|| device.memory().bytes == before);
            assert!(is_released, "{} bytes are held after round {round}, {before} before", device.memory().bytes);
        }
        Ok(())
    })
}

/// A thread that ends leaves its idle blocks to the next thread, and to any thread that invalidates the scope.
pub fn the_end_of_a_thread_leaves_idle_memory<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    on_a_thread(|| {
        cache_scope!(name = &name, { touch::<u8, D>(device, 64)? });
        assert_eq!(memory(device).bytes, before + 64);
        Ok(())
    })?;
    assert_eq!((memory(device).bytes, busy_and_idle(&name)), (before + 64, (0, 1)));
    on_a_thread(|| cache_scope!(name = &name, { touch::<u8, D>(device, 64) }))?;
    assert_eq!((hits_and_supplies(&name), busy_and_idle(&name)), ((1, 1), (0, 1)));
    assert_eq!(invalidate(&name).bytes, 64);
    assert_eq!((memory(device).bytes, busy_and_idle(&name)), (before, (0, 0)));
    Ok(())
}

/// An array outlives the thread that made it, and serves the next thread when it is dropped.
pub fn arrays_outlive_their_thread<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    let array = on_a_thread(|| cache_scope!(name = &name, recycle = "keyed", { patterned(device, 16, 4) }))?;
    on_a_thread(|| cache_scope!(name = &name, recycle = "keyed", { touch::<u32, D>(device, 16) }))?;
    assert_pattern(&array, 4);
    assert_eq!((memory(device).bytes, busy_and_idle(&name)), (before + 128, (1, 1)));
    drop(array);
    assert_eq!((memory(device).bytes, busy_and_idle(&name)), (before + 128, (0, 2)));
    on_a_thread(|| {
        cache_scope!(name = &name, recycle = "keyed", {
            let _first = patterned(device, 16, 5)?;
            touch::<u32, D>(device, 16)
        })
    })?;
    assert_eq!((hits_and_supplies(&name), busy_and_idle(&name)), ((2, 2), (0, 2)));
    Ok(())
}

thread_local! {
    static FIRST: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
    static LATER: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// An array in a thread-local that was made before the thread's first scope. So it is dropped after the memory of the scopes.
pub fn a_thread_local_made_first<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    on_a_thread(|| {
        FIRST.with_borrow_mut(Vec::clear);
        let array = cache_scope!(name = &name, { patterned(device, 16, 4)? });
        cache_scope!(name = &name, { touch::<u32, D>(device, 16)? });
        FIRST.with_borrow_mut(|kept| kept.push(Box::new(array)));
        Ok(())
    })?;
    assert_eq!((memory(device).bytes, busy_and_idle(&name)), (before + 128, (0, 2)));
    Ok(())
}

/// An array in a thread-local that was made inside a scope. So it is dropped before the memory of the scopes.
pub fn a_thread_local_made_later<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    on_a_thread(|| {
        cache_scope!(name = &name, {
            let array = patterned(device, 16, 4)?;
            touch::<u32, D>(device, 16)?;
            LATER.with_borrow_mut(|kept| kept.push(Box::new(array)));
        });
        Ok(())
    })?;
    assert_eq!((memory(device).bytes, busy_and_idle(&name)), (before + 128, (0, 2)));
    Ok(())
}

/// A guard that is never dropped. The end of the thread leaves its scope.
pub fn a_scope_left_open_at_the_end<D: Device>(device: &D, context: &Context) -> Result<()> {
    use gpucache::{Recycle, Scope};
    let name = context.name("scope");
    let before = memory(device).bytes;
    on_a_thread(|| {
        std::mem::forget((
            Scope::new(&name).recycle(Recycle::Keyed).enter(),
            Scope::new(&name).recycle(Recycle::Keyed).enter(),
        ));
        touch::<u32, D>(device, 16)
    })?;
    assert_eq!((memory(device).bytes, busy_and_idle(&name)), (before + 64, (0, 1)));
    on_a_thread(|| cache_scope!(name = &name, { touch::<u32, D>(device, 16) }))?;
    assert_eq!((stats_of(&name).entries, hits_and_supplies(&name)), (3, (1, 1)));
    // Nobody is inside any more, so this thread can take the idle memory.
    assert_eq!(invalidate(&name).bytes, 64);
    assert_eq!((memory(device).bytes, busy_and_idle(&name)), (before, (0, 0)));
    Ok(())
}

/// Allocates in a scope when it is dropped.
struct AtTheEnd<D: Device>(D, String);

impl<D: Device> Drop for AtTheEnd<D> {
    fn drop(&mut self) {
        let made = cache_scope!(name = &self.1, { patterned(&self.0, 16, 5) }).expect("memory");
        assert_pattern(&made, 5);
    }
}

/// The destructor of a thread-local enters scopes, before and after the thread's own stack of scopes is gone.
pub fn scopes_in_a_thread_locals_end<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    on_a_thread(|| {
        FIRST.with_borrow_mut(|kept| kept.push(Box::new(AtTheEnd(device.clone(), name.clone()))));
        cache_scope!(name = &name, { touch::<u32, D>(device, 16)? });
        LATER.with_borrow_mut(|kept| kept.push(Box::new(AtTheEnd(device.clone(), name.clone()))));
        Ok(())
    })?;
    assert_eq!((memory(device).bytes, busy_and_idle(&name)), (before + 64, (0, 1)));
    Ok(())
}

/// One call frees the idle blocks of all threads that are outside the scope.
pub fn invalidation_reaches_all_threads<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let before = memory(device).bytes;
    let (ready, is_ready) = mpsc::channel();
    std::thread::scope(|threads| {
        let others = [(); 3].map(|()| {
            let (go, may_go) = mpsc::channel::<()>();
            let (ready, name) = (ready.clone(), &name);
            let thread = threads.spawn(move || -> Result<Array<u32, D>> {
                let kept = cache_scope!(name = name, {
                    touch::<u8, D>(device, 100)?;
                    patterned(device, 10, 2)?
                });
                ready.send(()).expect("the test waits");
                may_go.recv().expect("the test goes on");
                Ok(kept)
            });
            (go, thread)
        });
        (0..3).for_each(|_| is_ready.recv().expect("the threads start"));
        let answer = invalidate(&name);
        assert_eq!((answer.bytes, answer.busy_blocks), (300, 3));
        assert_eq!(memory(device).bytes, before + 120);
        for (go, thread) in others {
            go.send(()).expect("the thread waits");
            assert_pattern(&thread.join().expect("no panic")?, 2);
        }
        assert_eq!(memory(device).bytes, before);
        Ok(())
    })
}

/// Threads that come one after the other share their counts, and each gets the blocks of the one before.
pub fn a_later_thread_goes_on<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    for round in 1..=4 {
        on_a_thread(|| {
            cache_scope!(name = &name, recycle = "keyed", {
                touch::<u8, D>(device, 64)?;
                touch::<u8, D>(device, 64)
            })
        })?;
        assert_eq!(hits_and_supplies(&name), (2 * round - 1, 1));
        assert_eq!(busy_and_idle(&name), (0, 1));
    }
    Ok(())
}

/// Arrays go round through several threads, all inside the same scope. They keep their contents and return home.
pub fn arrays_travel_in_circles<D: Device>(device: &D, context: &Context) -> Result<()> {
    const ROUNDS: u32 = 50;
    let name = context.name("scope");
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel::<(u32, Array<u32, D>)>()).unzip();
    std::thread::scope(|threads| -> Result<()> {
        let next = senders.into_iter().cycle().skip(1);
        let circle: Vec<_> = receivers.into_iter().zip(next.take(3)).zip(0..).collect();
        let threads = circle.into_iter().map(|((receiver, sender), thread)| {
            let name = &name;
            threads.spawn(move || -> Result<()> {
                cache_scope!(name = name, {
                    for round in 0..ROUNDS {
                        let seed = 1000 * thread + round;
                        // The last receiver may be gone already. The array is then dropped here.
                        drop(sender.send((seed, patterned(device, 25, seed)?)));
                        if let Ok((seed, array)) = receiver.recv() {
                            assert_pattern(&array, seed);
                        }
                    }
                });
                Ok(())
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let stats = stats_of(&name);
    assert_eq!((stats.allocations(), stats.busy_blocks), (3 * u64::from(ROUNDS), 0));
    Ok(())
}
