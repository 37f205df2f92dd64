//! A machine with a clock of its own and no memory: what a GPU would take, by a few figures of one.
//!
//! Work of a stream, copies and calls of the driver take the time that the figures say, and nothing else takes any. So a training
//! step under a limit is timed on any machine, always the same.
#![allow(unsafe_code)]

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpucache::device::{Backend, Copies, Device, Event, Mark, Memory, Stream, VirtualMemory};
use gpucache::prelude::*;
use gpucache::Result as CacheResult;

use crate::common::Result;
use crate::compute::{AdamW, Compute, Factor, Matrix};

/// Figures of a machine, in microseconds and bytes a microsecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Of a copy, beside its bytes.
    pub(crate) copy: f64,
    pub(crate) link: f64,
    /// What the host takes for an operation, for each call that orders streams, for a copy, and for a piece of pages.
    pub(crate) operation: f64,
    pub(crate) call: f64,
    pub(crate) copy_call: f64,
    pub(crate) piece: f64,
    /// What a stream takes for a wait, and for a mark.
    pub(crate) wait: f64,
    pub(crate) mark: f64,
    /// Work of all operations is this much longer.
    pub(crate) slowness: f64,
}

impl Figures {
    pub(crate) fn of_a_gpu() -> Figures {
        let number = |name: &str, default: f64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
        Figures {
            copy: number("F_COPY", 4.0),
            link: number("F_LINK", 53e3),
            operation: number("F_OPERATION", 7.0),
            call: number("F_CALL", 0.7),
            copy_call: number("F_COPY_CALL", 3.0),
            piece: number("F_PIECE", 100.0),
            wait: number("F_WAIT", 1.0),
            mark: number("F_MARK", 1.5),
            slowness: number("F_SLOWNESS", 1.0),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// When the host is, and when each stream's work ends.
    host: f64,
    streams: Vec<f64>,
    /// When the engines for copies to the device and from it are free.
    engines: [f64; 2],
    next: u64,
    calls: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
pub(crate) struct Clock {
    figures: Figures,
    state: Mutex<State>,
}

impl Clock {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host makes a call that takes so long.
    fn call(&self, name: &'static str, takes: f64) -> MutexGuard<'_, State> {
        let mut state = self.state();
        *state.calls.entry(name).or_default() += 1;
        state.host += takes;
        state
    }
}

/// What a stream does with the addresses of a device, or of the host's side.
#[derive(Debug)]
struct Queue {
    clock: Arc<Clock>,
    stream: usize,
}

/// From here on addresses are the host's.
const HOST: u64 = 1 << 60;

#[derive(Debug)]
struct HostSide(Queue);

#[derive(Debug)]
struct Point(AtomicU64, Arc<Clock>);

impl Point {
    fn at(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

// SAFETY: no work is real.
unsafe impl Event for Point {
    fn is_complete(&self) -> CacheResult<bool> {
        let state = self.1.call("query", self.1.figures.call);
        Ok(self.at() <= state.host)
    }
}

impl Mark for Point {
    fn since(&self, earlier: &dyn Mark) -> CacheResult<Option<Duration>> {
        let earlier: &dyn Any = earlier;
        let Some(earlier) = earlier.downcast_ref::<Point>() else { return Ok(None) };
        let now = self.1.state().host;
        let (from, to) = (earlier.at(), self.at());
        Ok((from.max(to) <= now).then(|| Duration::from_secs_f64((to - from).max(0.0) / 1e6)))
    }
}

impl Queue {
    fn work(&self, name: &'static str, host: f64, takes: f64) {
        let mut state = self.clock.call(name, host);
        let begin = state.host.max(state.streams[self.stream]);
        state.streams[self.stream] = begin + takes;
    }

    fn copy_over(&self, bytes: usize, is_out: bool) {
        let Figures { copy, link, copy_call, .. } = self.clock.figures;
        let mut state = self.clock.call("copy", copy_call);
        let begin = state.host.max(state.streams[self.stream]).max(state.engines[usize::from(is_out)]);
        let end = begin + copy + bytes as f64 / link;
        state.streams[self.stream] = end;
        state.engines[usize::from(is_out)] = end - copy / 2.0;
    }

    fn point(&self, takes: f64) -> Point {
        let figures = self.clock.figures;
        let mut state = self.clock.call("record", figures.call);
        let at = state.host.max(state.streams[self.stream]) + takes;
        state.streams[self.stream] = at;
        Point(AtomicU64::new(at.to_bits()), self.clock.clone())
    }
}

// SAFETY: nothing follows the addresses.
unsafe impl Backend for Queue {
    fn allocate(&self, bytes: usize) -> CacheResult<u64> {
        let mut state = self.clock.call("allocate", self.clock.figures.piece);
        state.next += (bytes as u64).next_multiple_of(256);
        Ok((1 << 50) + state.next - (bytes as u64).next_multiple_of(256))
    }

    unsafe fn free(&self, _address: u64, _bytes: usize) -> CacheResult<()> {
        Ok(())
    }

    unsafe fn fill(&self, _address: u64, bytes: usize, _pattern: &[u8]) -> CacheResult<()> {
        self.work("fill", 3.0, 2.0 + bytes as f64 / 2.5e6);
        Ok(())
    }

    unsafe fn write(&self, _from: *const u8, _to: u64, _bytes: usize) -> CacheResult<()> {
        self.work("write", 5.0, 5.0);
        Ok(())
    }

    unsafe fn read(&self, _from: u64, to: *mut u8, bytes: usize) -> CacheResult<()> {
        // SAFETY: the caller gives `bytes` writable bytes at `to`.
        unsafe { to.write_bytes(0, bytes) };
        self.work("read", 5.0, 5.0);
        self.synchronize()
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> CacheResult<()> {
        match (from >= HOST, to >= HOST) {
            (false, false) => self.work("copy on the device", 3.0, 2.0 + bytes as f64 / 1.2e6),
            (_, is_out) => self.copy_over(bytes, is_out),
        }
        Ok(())
    }

    fn copies(&self) -> CacheResult<Option<Copies>> {
        let stream = {
            let mut state = self.clock.state();
            state.streams.push(0.0);
            state.streams.len() - 1
        };
        let queue = || Queue { clock: self.clock.clone(), stream };
        Ok(Some(Copies { device: Arc::new(queue()), host: Arc::new(HostSide(queue())) }))
    }

    fn synchronize(&self) -> CacheResult<()> {
        let mut state = self.clock.call("synchronize", self.clock.figures.call);
        state.host = state.host.max(state.streams[self.stream]) + 5.0;
        Ok(())
    }

    fn new_event(&self) -> CacheResult<Arc<dyn Event>> {
        drop(self.clock.call("new event", self.clock.figures.call));
        Ok(Arc::new(Point(AtomicU64::new(0), self.clock.clone())))
    }

    fn record(&self, event: &dyn Event) -> CacheResult<()> {
        let event: &dyn Any = event;
        let at = self.point(0.0);
        if let Some(event) = event.downcast_ref::<Point>() {
            event.0.store(at.at().to_bits(), Relaxed);
        }
        Ok(())
    }

    fn wait(&self, event: &dyn Event) -> CacheResult<()> {
        let event: &dyn Any = event;
        let mut state = self.clock.call("wait", self.clock.figures.call);
        if let Some(event) = event.downcast_ref::<Point>() {
            let end = state.streams[self.stream];
            state.streams[self.stream] = end.max(event.at()) + self.clock.figures.wait;
        }
        Ok(())
    }

    fn mark(&self) -> CacheResult<Option<Box<dyn Mark>>> {
        Ok(Some(Box::new(self.point(self.clock.figures.mark))))
    }

    fn records_for_anyone(&self) -> bool {
        false
    }
}

// SAFETY: nothing follows the addresses.
unsafe impl Backend for HostSide {
    fn allocate(&self, bytes: usize) -> CacheResult<u64> {
        let mut state = self.0.clock.call("pin", bytes as f64 * 0.4e-3);
        let address = HOST + state.next;
        state.next += (bytes as u64).next_multiple_of(256) + 4096;
        Ok(address)
    }

    unsafe fn free(&self, _address: u64, _bytes: usize) -> CacheResult<()> {
        Ok(())
    }

    unsafe fn fill(&self, _address: u64, _bytes: usize, _pattern: &[u8]) -> CacheResult<()> {
        Ok(())
    }

    unsafe fn write(&self, _from: *const u8, _to: u64, _bytes: usize) -> CacheResult<()> {
        Ok(())
    }

    unsafe fn read(&self, _from: u64, _to: *mut u8, _bytes: usize) -> CacheResult<()> {
        Ok(())
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> CacheResult<()> {
        // SAFETY: as the caller says.
        unsafe { self.0.copy(from, to, bytes) }
    }

    fn synchronize(&self) -> CacheResult<()> {
        self.0.synchronize()
    }

    fn new_event(&self) -> CacheResult<Arc<dyn Event>> {
        self.0.new_event()
    }

    fn record(&self, event: &dyn Event) -> CacheResult<()> {
        self.0.record(event)
    }

    fn wait(&self, event: &dyn Event) -> CacheResult<()> {
        self.0.wait(event)
    }

    fn records_for_anyone(&self) -> bool {
        false
    }
}

const PAGE: u64 = 2 << 20;
const CAPACITY: u64 = 80 << 30;

#[derive(Debug)]
struct Pages(Arc<Clock>);

// SAFETY: nothing follows the addresses.
unsafe impl VirtualMemory for Pages {
    fn granularity(&self) -> u64 {
        PAGE
    }

    fn capacity(&self) -> Option<u64> {
        Some(CAPACITY)
    }

    fn reserve(&self) -> CacheResult<(u64, u64)> {
        Ok((1 << 40, 1 << 44))
    }

    fn map(&self, _address: u64, _bytes: u64) -> CacheResult<()> {
        drop(self.0.call("map", self.0.figures.piece));
        Ok(())
    }

    unsafe fn unmap(&self, _address: u64, _bytes: u64) -> CacheResult<()> {
        drop(self.0.call("unmap", self.0.figures.piece));
        Ok(())
    }
}

/// A device of such a machine.
#[derive(Clone, Debug)]
#[repr(transparent)]
pub(crate) struct Clocked(Stream);

// SAFETY: a transparent struct around the stream that it gives out.
unsafe impl Device for Clocked {
    fn stream_handle(&self) -> &Stream {
        &self.0
    }
}

#[derive(Debug)]
pub(crate) struct ClockCompute {
    device: Clocked,
    clock: Arc<Clock>,
}

impl ClockCompute {
    pub(crate) fn new(figures: Figures) -> ClockCompute {
        let state = State { streams: vec![0.0], ..State::default() };
        let clock = Arc::new(Clock { figures, state: Mutex::new(state) });
        let memory = Memory::with_pages(Pages(clock.clone()));
        // SAFETY: what the pages and the backend give are numbers that nobody follows.
        let stream = unsafe { Stream::new(memory.into(), Queue { clock: clock.clone(), stream: 0 }) };
        ClockCompute { device: Clocked(stream), clock }
    }

    /// Work of so many operations on numbers, and so many bytes.
    fn work(&self, flops: f64, numbers: usize, extra: f64) -> Result<()> {
        let Figures { operation, slowness, .. } = self.clock.figures;
        let takes = (3.0 + flops / 42e6 + numbers as f64 * 4.0 / 2.2e6 + extra) * slowness;
        let mut state = self.clock.call("launch", operation);
        let begin = state.host.max(state.streams[0]);
        state.streams[0] = begin + takes;
        Ok(())
    }
}

fn array<'a>(factor: &'a Factor<'_, Clocked>) -> &'a Matrix<Clocked> {
    match factor {
        Factor::AsIs(array) | Factor::Transposed(array) => array,
    }
}

type M = Matrix<Clocked>;

impl Compute for ClockCompute {
    type Device = Clocked;

    fn device(&self) -> &Clocked {
        &self.device
    }

    fn name(&self) -> String {
        "clock".to_owned()
    }

    fn seconds(&self) -> f64 {
        self.clock.state().host / 1e6
    }

    fn measure(&self) {
        println!("{:?}", self.clock.state().calls);
    }

    fn uniform(&self, _key: u64, _limit: f32, out: &mut M) -> Result<()> {
        self.work(0.0, out.len(), 0.0)
    }

    fn matmul(&self, a: Factor<'_, Clocked>, b: Factor<'_, Clocked>, beta: f32, out: &mut M) -> Result<()> {
        self.batched_matmul(1, a, b, beta, out)
    }

    fn batched_matmul(&self, batch: usize, a: Factor<'_, Clocked>, b: Factor<'_, Clocked>, _: f32, out: &mut M) -> Result<()> {
        let (a, b) = (array(&a), array(&b));
        let product = (a.len() / batch) as f64 * (b.len() / batch) as f64 * (out.len() / batch) as f64;
        self.work(2.0 * product.sqrt() * batch as f64, 0, 2.0)
    }

    fn add(&self, _x: &M, sum: &mut M) -> Result<()> {
        self.work(0.0, 3 * sum.len(), 0.0)
    }

    fn add_bias(&self, _bias: &M, x: &mut M) -> Result<()> {
        self.work(0.0, 2 * x.len(), 0.0)
    }

    fn sum_rows(&self, x: &M, _out: &mut M) -> Result<()> {
        self.work(0.0, x.len(), 40.0)
    }

    fn gelu(&self, x: &M, _out: &mut M) -> Result<()> {
        self.work(0.0, 2 * x.len(), 0.0)
    }

    fn gelu_gradient(&self, x: &M, _gradient: &mut M) -> Result<()> {
        self.work(0.0, 3 * x.len(), 0.0)
    }

    fn layer_norm(&self, x: &M, _gain: &M, _bias: &M, _out: &mut M) -> Result<()> {
        self.work(0.0, 2 * x.len(), 5.0)
    }

    fn layer_norm_gradient(&self, x: &M, _gain: &M, _gradient: &M, _sum: &mut M) -> Result<()> {
        self.work(0.0, 4 * x.len(), 5.0)
    }

    fn normalized_product(&self, x: &M, _gradient: &M, _out: &mut M) -> Result<()> {
        self.work(0.0, 3 * x.len(), 5.0)
    }

    fn split_heads(&self, _context: usize, x: &M, _out: &mut M) -> Result<()> {
        self.work(0.0, 2 * x.len(), 0.0)
    }

    fn merge_heads(&self, _context: usize, x: &M, _out: &mut M) -> Result<()> {
        self.work(0.0, 2 * x.len(), 0.0)
    }

    fn causal_softmax(&self, scores: &mut M) -> Result<()> {
        self.work(0.0, 2 * scores.len(), 10.0)
    }

    fn softmax_gradient(&self, probabilities: &M, _gradient: &mut M) -> Result<()> {
        self.work(0.0, 3 * probabilities.len(), 10.0)
    }

    fn embed(&self, _tokens: &Array<u32, Clocked>, _table: &M, _positions: &M, out: &mut M) -> Result<()> {
        self.work(0.0, 2 * out.len(), 0.0)
    }

    fn embed_gradient(&self, _tokens: &Array<u32, Clocked>, gradient: &M, _out: &mut M) -> Result<()> {
        self.work(0.0, gradient.len(), 500.0)
    }

    fn cross_entropy(&self, logits: &M, _targets: &Array<u32, Clocked>, _losses: &mut M, _gradient: &mut M) -> Result<()> {
        self.work(0.0, 2 * logits.len(), 5.0)
    }

    fn adamw(&self, _numbers: AdamW, gradient: &M, _moved: [&mut M; 3]) -> Result<()> {
        self.work(0.0, 7 * gradient.len(), 0.0)
    }
}
