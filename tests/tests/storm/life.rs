//! One thread of the storm, from its beginning to its end.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::thread::yield_now;

use gpucache::device::Device;
use gpucache::prelude::{Array, Host};
use gpucache::{Result, invalidate, invalidate_all, stats};
use gpucache::{Scope, ScopeGuard};
use gpucache_tests::model::SHAPES;
use gpucache_tests::{Marked, marked};

use super::load::Load;
use super::{KINDS, Storm};

/// The most arrays of a thread, and the most scopes that it is inside of.
const MOST: (usize, usize) = (40, 4);

thread_local! {
    /// Dropped when the thread ends, before or after its scopes are left.
    static KEPT: RefCell<Vec<Load>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct Life<'s> {
    storm: &'s Storm,
    place: usize,
    random: fastrand::Rng,
    /// At times, a stream of its own.
    stream: Option<Host>,
    guards: Vec<ScopeGuard>,
    loads: Vec<Load>,
    inbox: &'s mut Receiver<Load>,
}

/// A step that repeats itself, so that it is worth a plan. The returned array outlives the entry.
fn regular<D: Device>(device: &D, value: u32) -> Result<Array<u32, D>> {
    let mut last = Array::full(device, 500, value)?;
    for layer in 1..8 {
        let _scratch = Array::<u32, D>::zeros(device, 300 * layer)?;
        last = Array::full(device, 2000 - 200 * layer, value)?;
    }
    Ok(last)
}

impl<'s> Life<'s> {
    /// Takes some steps, and ends in the midst of them.
    pub(super) fn run(storm: &'s Storm, place: usize, seed: u64, inbox: &'s mut Receiver<Load>) -> Result<()> {
        let mut random = fastrand::Rng::with_seed(seed);
        if random.bool() {
            KEPT.with_borrow_mut(Vec::clear);
        }
        let stream = random.bool().then(Host::new_stream).transpose()?;
        let (guards, loads, steps) = (Vec::new(), Vec::new(), random.u32(20..600));
        let mut life = Life { storm, place, random, stream, guards, loads, inbox };
        for _ in 0..steps {
            life.step()?;
        }
        life.loads.iter().for_each(Load::check);
        if life.random.u8(..4) == 0 {
            life.guards.drain(..).for_each(std::mem::forget);
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        match self.random.u32(..100) {
            0..9 if self.guards.len() < MOST.1 => self.enter(),
            0..17 if !self.guards.is_empty() => drop(self.guards.swap_remove(self.random.usize(..self.guards.len()))),
            0..24 => self.regular()?,
            24..44 if self.loads.len() < MOST.0 => self.allocate()?,
            24..60 => self.take().iter().for_each(Load::check),
            60..68 => self.hand_on(),
            68..78 => self.loads.extend(self.inbox.try_recv()),
            78..82 => self.reshape()?,
            82..86 => self.copy()?,
            86..92 => self.raise()?,
            92..95 => self.drop_later()?,
            95 => KEPT.with_borrow_mut(|kept| kept.extend(self.take())),
            96 => self.disturb()?,
            97 => self.ask(),
            _ => yield_now(),
        }
        Ok(())
    }

    /// The name of a scope, and the number of its kind. All threads enter the scope, or only this thread and those that take its
    /// place.
    fn name(&mut self) -> (String, usize) {
        let (kind, place) = (self.random.usize(..KINDS.len()), self.random.bool().then_some(self.place));
        (Storm::name(kind, place), kind)
    }

    /// A stream of the host, and whether it does its work later.
    fn stream(&mut self) -> (Host, bool) {
        match self.random.u8(..3) {
            0 => (self.storm.host.clone(), false),
            _ => (self.late_stream(), true),
        }
    }

    /// This thread's stream, or one of all threads.
    fn late_stream(&mut self) -> Host {
        let own = self.stream.clone().filter(|_| self.random.u8(..3) == 0);
        own.unwrap_or_else(|| self.random.choice(&self.storm.streams).unwrap().clone())
    }

    fn take(&mut self) -> Option<Load> {
        (!self.loads.is_empty()).then(|| self.loads.swap_remove(self.random.usize(..self.loads.len())))
    }

    fn enter(&mut self) {
        let (name, kind) = self.name();
        self.guards.push(if self.random.u8(..12) == 0 {
            ScopeGuard::outside()
        } else {
            Scope::new(&name).recycle(KINDS[kind]).enter()
        });
    }

    /// A few entries of a scope without deviations.
    fn regular(&mut self) -> Result<()> {
        let ((name, kind), value, (stream, _)) = (self.name(), self.random.u32(..), self.stream());
        let on_addresses = self.random.u8(..3) == 0;
        for _ in 0..self.random.u32(1..6) {
            let _guard = Scope::new(&name).recycle(KINDS[kind]).enter();
            match on_addresses {
                true => drop(regular(&self.storm.device, value)?),
                false => assert!(regular(&stream, value)?.iter().all(|&word| word == value), "another step's values"),
            }
        }
        Ok(())
    }

    fn allocate(&mut self) -> Result<()> {
        let ((stream, is_late), mark) = (self.stream(), self.storm.marks.fetch_add(1, Relaxed));
        let most = if self.random.u8(..16) == 0 { 100_000 } else { 3000 };
        let len = self.random.usize(1..most);
        self.loads.push(match self.random.u8(..5) {
            0 => Load::Addresses(Array::zeros(&self.storm.device, 100 * len)?),
            1 => {
                let (kind, shape) = (self.random.usize(..marked::TYPES), self.random.usize(..SHAPES.len()));
                Load::Typed(Marked::new(&stream, kind, SHAPES[shape], mark)?)
            }
            _ => Load::words(&stream, is_late, len, mark)?,
        });
        Ok(())
    }

    fn hand_on(&mut self) {
        let to = self.random.usize(..self.storm.inboxes.len());
        // The inboxes stay open until all threads have ended.
        self.take().into_iter().for_each(|load| assert!(self.storm.inboxes[to].send(load).is_ok()));
    }

    fn reshape(&mut self) -> Result<()> {
        let reshaped = self.take().map(Load::reshape).transpose()?;
        self.loads.extend(reshaped);
        Ok(())
    }

    fn copy(&mut self) -> Result<()> {
        let copy = self.loads.last().map(Load::another).transpose()?;
        self.loads.extend(copy);
        Ok(())
    }

    fn raise(&mut self) -> Result<()> {
        let stream = self.late_stream();
        self.loads.last_mut().map_or(Ok(()), |load| load.raise_on(&stream))
    }

    /// Lets a stream's thread drop an array, at times inside a scope.
    fn drop_later(&mut self) -> Result<()> {
        let (load, stream, (name, kind)) = (self.take(), self.late_stream(), self.name());
        let own = self.random.bool().then(|| stream.clone());
        stream.launch((), move |()| {
            let _guard = Scope::new(&name).recycle(KINDS[kind]).enter();
            drop(load);
            own.into_iter().for_each(|stream| drop(Array::full(&stream, 1000, 1u32)));
        })
    }

    fn disturb(&mut self) -> Result<()> {
        match self.random.u8(..12) {
            0 => drop(invalidate_all()),
            1 => _ = self.storm.host.trim(),
            2 => _ = self.storm.streams[0].trim(),
            3 => _ = self.storm.device.trim(),
            _ => drop(invalidate(self.name().0)),
        }
        Ok(())
    }

    /// Reads statistics. Other threads change them meanwhile, but no number becomes wrong enough to stop anybody.
    fn ask(&mut self) {
        let name = self.name().0;
        let _ = (stats(&name), stats(&name), self.storm.host.memory(), self.storm.streams[0].ordering());
    }
}
