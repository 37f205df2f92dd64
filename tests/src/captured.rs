//! Random programs of captured scopes, compared with a model: each array has one value in all elements, and the model knows it.
//!
//! A step of a program runs a captured scope, moves or drops an input, holds or drops outputs, enters another scope, invalidates, trims,
//! sets a limit, or changes a key's block. Every array that is looked at must have its value.

use gpucache::graph::CapturedScope;
use gpucache::prelude::*;
use gpucache::{Limit, Result, Scope};

use crate::alike::{are_all, fill};

/// A device with a kernel that adds.
pub trait Adds: Device {
    /// `out = input + value`
    fn add(&self, out: &mut Array<u32, Self>, input: &Array<u32, Self>, value: u32) -> Result<()>;
}

impl Adds for Host {
    fn add(&self, out: &mut Array<u32, Self>, input: &Array<u32, Self>, value: u32) -> Result<()> {
        self.launch_kernel((out, input), move |(out, input)| {
            match input.first().filter(|&&first| are_all(input, first)) {
                Some(first) => fill(out, first.wrapping_add(value)),
                None => out.iter_mut().zip(input).for_each(|(y, x)| *y = x.wrapping_add(value)),
            }
        })
    }
}

/// The kernels of the only context that the tests use.
#[cfg(feature = "cuda")]
static KERNELS: std::sync::OnceLock<Option<crate::gpu::Kernels>> = std::sync::OnceLock::new();

#[cfg(feature = "cuda")]
impl Adds for Cuda {
    fn add(&self, out: &mut Array<u32, Cuda>, input: &Array<u32, Cuda>, value: u32) -> Result<()> {
        let kernels = KERNELS.get_or_init(|| crate::gpu::Kernels::load(self.stream().context()));
        kernels.as_ref().expect("kernels").add_on_checked(self, out, input, value)
    }
}

/// An array, and the value of its elements.
pub struct Valued<D> {
    /// The array.
    pub array: Array<u32, D>,
    /// The value of each element.
    pub value: u32,
}

impl<D: Device> Valued<D> {
    fn new(device: &D, len: usize, value: u32) -> Result<Valued<D>> {
        Ok(Valued { array: Array::full(device, len, value)?, value })
    }

    /// # Panics
    /// If an element has another value.
    pub fn check(&self, what: &str) {
        let found = self.array.to_vec().unwrap();
        let is_right = are_all(&found, self.value);
        let wrong = if is_right { None } else { found.iter().position(|&value| value != self.value) };
        assert_eq!(wrong.map(|place| (place, found[place])), None, "{what}: expected {}", self.value);
    }
}

/// The block of a key: which arrays it makes, and in which order they are dropped.
#[derive(Clone, Debug)]
pub struct Work {
    /// The number of elements of each array.
    pub len: usize,
    /// For each kernel: the number of the live array that it reads, the value that it adds, and the number of the live array that is
    /// dropped after it.
    kernels: Vec<(usize, u32, Option<usize>)>,
    /// Whether the second input is written.
    writes: bool,
    outputs: usize,
}

impl Work {
    /// Work with a random order, on arrays of `len` elements.
    pub fn random(random: &mut fastrand::Rng, len: usize) -> Work {
        let count = random.usize(1..30);
        let kernels =
            (0..count).map(|_| (random.usize(..), random.u32(..1000), random.bool().then(|| random.usize(..))));
        Work { len, kernels: kernels.collect(), writes: random.bool(), outputs: random.usize(0..3) }
    }

    /// Puts the work on the device. Returns the outputs.
    ///
    /// # Errors
    /// Those of the device.
    pub fn put<D: Adds>(&self, input: &Array<u32, D>, state: &mut Array<u32, D>) -> Result<Vec<Array<u32, D>>> {
        let device = input.device().clone();
        let mut live: Vec<Array<u32, D>> = Vec::new();
        for &(from, value, dropped) in &self.kernels {
            let mut new = device.zeros::<u32>(self.len)?;
            let from = if live.is_empty() { input } else { &live[from % live.len()] };
            device.add(&mut new, from, value)?;
            live.push(new);
            if let Some(dropped) = dropped.filter(|_| live.len() > 3) {
                live.swap_remove(dropped % live.len());
            }
        }
        if self.writes {
            let mut next = device.zeros::<u32>(self.len)?;
            device.add(&mut next, state, 1)?;
            device.add(state, &next, 1)?;
        }
        live.truncate(self.outputs);
        Ok(live)
    }

    /// The values that `put` computes.
    fn model(&self, input: u32, state: &mut u32) -> Vec<u32> {
        let mut live: Vec<u32> = Vec::new();
        for &(from, value, dropped) in &self.kernels {
            let from = if live.is_empty() { input } else { live[from % live.len()] };
            live.push(from.wrapping_add(value));
            if let Some(dropped) = dropped.filter(|_| live.len() > 3) {
                live.swap_remove(dropped % live.len());
            }
        }
        if self.writes {
            *state = state.wrapping_add(2);
        }
        live.truncate(self.outputs);
        live
    }
}

/// A program in progress.
pub struct Program<D: Adds> {
    device: D,
    name: String,
    random: fastrand::Rng,
    scope: CapturedScope<u32, D>,
    works: Vec<Work>,
    inputs: Vec<Valued<D>>,
    states: Vec<Valued<D>>,
    held: Vec<Valued<D>>,
    is_limited: bool,
    may_limit: bool,
}

impl<D: Adds> Program<D> {
    /// A program with some keys on the stream of `device`.
    ///
    /// # Panics
    /// If the device has no memory.
    pub fn new(device: &D, name: &str, seed: u64) -> Program<D> {
        let mut random = fastrand::Rng::with_seed(seed);
        let order = Work::random(&mut random, 0);
        let works = (0..random.usize(1..6)).map(|_| {
            let len = random.usize(1..20_000);
            if random.bool() { Work { len, ..order.clone() } } else { Work::random(&mut random, len) }
        });
        let works: Vec<Work> = works.collect();
        let valued = |work: &Work| Valued::new(device, work.len, 7).unwrap();
        let scope = CapturedScope::new(device, name).max_graphs(random.usize(1..8)).compare(random.u32(..20) == 0);
        Program {
            device: device.clone(),
            name: name.to_owned(),
            inputs: works.iter().map(valued).collect(),
            states: works.iter().map(valued).collect(),
            random,
            scope,
            works,
            held: Vec::new(),
            is_limited: false,
            may_limit: true,
        }
    }

    /// The same program, without limits of the device, which other programs use too.
    #[must_use]
    pub fn without_limits(self) -> Program<D> {
        Program { may_limit: false, ..self }
    }

    /// Does `steps` random steps, and returns how many launches of graphs there were.
    ///
    /// # Panics
    /// If an array has a wrong value, or the device fails.
    pub fn run(mut self, steps: usize) -> u64 {
        for _ in 0..steps {
            match self.random.u32(..40) {
                0 => drop(invalidate(&self.name)),
                1 => drop(self.device.trim()),
                2 => self.move_input(),
                3 => self.move_state(),
                4 => self.other_scope(),
                5 => self.hold(),
                6 if self.may_limit => self.limit(),
                7 => self.change_work(),
                8 => drop(self.scope.remove(&self.random.u32(..6))),
                _ => self.run_scope(),
            }
        }
        self.held.iter().for_each(|held| held.check("held"));
        self.states.iter().for_each(|state| state.check("state"));
        if self.may_limit {
            self.device.set_limit(Limit::NONE).unwrap();
        }
        if std::env::var_os("SEED").is_some() {
            eprintln!("{}", self.scope.stats());
        }
        self.scope.stats().launches
    }

    fn run_scope(&mut self) {
        let key = self.random.usize(..self.works.len());
        if self.random.u32(..4) == 0 {
            let value = self.random.u32(..);
            let input = &mut self.inputs[key];
            input.array.copy_from_slice(&vec![value; input.array.len()]).unwrap();
            input.value = value;
        }
        let (work, input, state) = (&self.works[key], &self.inputs[key], &mut self.states[key]);
        let done =
            self.scope.run(key as u32, (&input.array, &mut state.array), |(input, state)| work.put(input, state));
        let done = match done {
            Ok(done) => done,
            Err(error) if error.is_out_of_memory() && self.is_limited => {
                // The block may have written its state.
                let elements = state.array.to_vec().unwrap();
                state.value = elements[0];
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let values = work.model(input.value, &mut state.value);
        assert_eq!(done.len(), values.len());
        self.held.extend(done.into_iter().zip(values).map(|(array, value)| Valued { array, value }));
        while self.held.len() > 12 {
            let one = self.random.usize(..self.held.len());
            self.held.swap_remove(one).check("an output");
        }
        if self.random.bool() {
            self.held.drain(..).for_each(|held| held.check("an output"));
        }
    }

    fn move_input(&mut self) {
        let key = self.random.usize(..self.works.len());
        if let Ok(new) = Valued::new(&self.device, self.works[key].len, self.random.u32(..)) {
            self.inputs[key] = new;
        }
    }

    fn move_state(&mut self) {
        let key = self.random.usize(..self.works.len());
        self.states[key].check("a state");
        if let Ok(new) = Valued::new(&self.device, self.works[key].len, self.random.u32(..)) {
            self.states[key] = new;
        }
    }

    /// Arrays of another scope on the same stream.
    fn other_scope(&mut self) {
        let name = format!("{}, other", self.name);
        let inside = Scope::new(&name).enter();
        let arrays: Vec<_> = (0..self.random.u32(1..8))
            .filter_map(|number| Valued::new(&self.device, self.random.usize(1..20_000), number).ok())
            .collect();
        self.run_scope();
        arrays.iter().for_each(|array| array.check("an array of another scope"));
        drop(inside);
    }

    /// An array that lives on.
    fn hold(&mut self) {
        if let Ok(new) = Valued::new(&self.device, self.random.usize(1..20_000), self.random.u32(..)) {
            self.held.push(new);
        }
    }

    fn limit(&mut self) {
        self.is_limited = self.random.bool();
        let limit = if self.is_limited { Limit::hard(self.device.memory().bytes.max(1 << 20)) } else { Limit::NONE };
        self.device.set_limit(limit).unwrap();
    }

    fn change_work(&mut self) {
        let key = self.random.usize(..self.works.len());
        let len = self.works[key].len;
        // The graph would repeat the old work.
        self.scope.remove(&(key as u32));
        self.works[key] = Work::random(&mut self.random, len);
    }
}
