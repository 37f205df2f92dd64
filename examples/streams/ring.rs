//! The ring of streams, and its measurement. Both kinds of step alternate, so that slow changes of the machine affect both equally.

use std::fmt;
use std::time::Instant;

use gpucache::prelude::*;
use serde_json::{Value, json};

use crate::common::Result;

/// The operations of streams on arrays.
pub(crate) trait Machine {
    type Device: Device;
    /// A stream of the plain kind, and the sum that it has read.
    type Plain;

    fn name(&self) -> String;
    fn new_stream(&self) -> Result<Self::Device>;
    fn write(&self, stream: &Self::Device, array: &mut Array<f32, Self::Device>, value: f32) -> Result<()>;
    fn read(
        &self,
        stream: &Self::Device,
        sum: &mut Array<f32, Self::Device>,
        array: &Array<f32, Self::Device>,
    ) -> Result<()>;

    /// The streams for [`plain_step`](Machine::plain_step); `None` if the device has no plain kind.
    fn plain_streams(&self, size: Size) -> Result<Option<Vec<Self::Plain>>>;
    /// Does the same as the scoped step, with the device's own allocations, and waits for the end.
    fn plain_step(&self, streams: &mut [Self::Plain], size: Size) -> Result<()>;
    /// The first number of the first stream's sum.
    fn plain_sum(&self, streams: &[Self::Plain]) -> Result<f32>;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) streams: usize,
    /// The number of arrays of each stream in a step.
    pub(crate) arrays: usize,
    pub(crate) elements: usize,
}

/// Median times, and calls per dropped array.
#[derive(Debug)]
pub(crate) struct Report {
    device: String,
    streams: usize,
    arrays_per_step: usize,
    elements: usize,
    scoped_us: f64,
    plain_us: Option<f64>,
    /// The ratio of the throughputs.
    scoped_over_plain: Option<f64>,
    events_per_drop: f64,
    queries_per_drop: f64,
    waits_per_drop: f64,
}

impl Report {
    /// One JSON object.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "device": self.device,
            "streams": self.streams,
            "arrays_per_step": self.arrays_per_step,
            "elements": self.elements,
            "scoped_us": self.scoped_us,
            "plain_us": self.plain_us,
            "scoped_over_plain": self.scoped_over_plain,
            "events_per_drop": self.events_per_drop,
            "queries_per_drop": self.queries_per_drop,
            "waits_per_drop": self.waits_per_drop,
        })
    }
}

/// Steps after which the scope has learned its order.
const WARM: usize = 16;

struct Ring<'m, M: Machine> {
    machine: &'m M,
    streams: Vec<M::Device>,
    sums: Vec<Array<f32, M::Device>>,
    size: Size,
}

impl<'m, M: Machine> Ring<'m, M> {
    fn new(machine: &'m M, size: Size) -> Result<Self> {
        let streams = (0..size.streams).map(|_| machine.new_stream()).collect::<Result<Vec<_>>>()?;
        let zeros = |stream| Array::zeros(stream, size.elements);
        let sums = streams.iter().map(zeros).collect::<gpucache::Result<_>>()?;
        Ok(Ring { machine, streams, sums, size })
    }

    /// Each stream writes its arrays. Then each stream reads those of the one before it.
    #[allow(unsafe_code)]
    fn step(&mut self) -> Result<()> {
        let _scope = gpucache::Scope::new("ring").enter();
        let mut rows = Vec::with_capacity(self.size.streams);
        for stream in &self.streams {
            let mut row = Vec::with_capacity(self.size.arrays);
            for number in 0..self.size.arrays {
                // SAFETY: `write` writes every element.
                let mut array = unsafe { Array::uninit(stream, self.size.elements)? };
                self.machine.write(stream, &mut array, number as f32)?;
                row.push(array);
            }
            rows.push(row);
        }
        for (place, row) in rows.into_iter().enumerate() {
            let next = (place + 1) % self.size.streams;
            for array in row {
                self.machine.read(&self.streams[next], &mut self.sums[next], &array)?;
            }
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(self.streams.iter().try_for_each(Device::synchronize)?)
    }
}

/// # Errors
/// A failure of the device, or wrong sums.
pub(crate) fn measure<M: Machine>(machine: &M, size: Size, steps: usize) -> Result<Report> {
    let mut ring = Ring::new(machine, size)?;
    let mut plain = machine.plain_streams(size)?;
    (0..WARM).try_for_each(|_| ring.step())?;
    ring.synchronize()?;
    let before = ring.streams[0].ordering();
    let (mut scoped_us, mut plain_us) = (Vec::new(), Vec::new());
    for step in 1..=steps {
        scoped_us.push(timed(|| {
            ring.step()?;
            ring.synchronize()
        })?);
        if let Some(plain) = &mut plain {
            plain_us.push(timed(|| machine.plain_step(plain, size))?);
            check(machine.plain_sum(plain)?, step, size)?;
        }
    }
    let after = ring.streams[0].ordering();
    check(ring.sums[0].to_vec()?[0], WARM + steps, size)?;
    let drops = (steps * size.streams * size.arrays) as f64;
    let per_drop = |after: u64, before: u64| (after - before) as f64 / drops;
    let scoped_us = median(&mut scoped_us);
    let plain_us = (!plain_us.is_empty()).then(|| median(&mut plain_us));
    drop(ring);
    let _ = invalidate("ring");
    Ok(Report {
        device: machine.name(),
        streams: size.streams,
        arrays_per_step: size.streams * size.arrays,
        elements: size.elements,
        scoped_us,
        plain_us,
        scoped_over_plain: plain_us.map(|plain| plain / scoped_us),
        events_per_drop: per_drop(after.events, before.events),
        queries_per_drop: per_drop(after.queries, before.queries),
        waits_per_drop: per_drop(after.waits, before.waits),
    })
}

fn timed(act: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    act()?;
    Ok(start.elapsed().as_nanos() as f64 / 1e3)
}

/// Checks the sum: each step adds the numbers of the arrays.
fn check(sum: f32, steps: usize, size: Size) -> Result<()> {
    let expected = (steps * size.arrays * (size.arrays - 1) / 2) as f32;
    match sum == expected || expected > (1 << 24) as f32 {
        true => Ok(()),
        false => Err(format!("the first stream read {sum} in all, not {expected}: it was not in order").into()),
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { streams, arrays_per_step, device, scoped_us, .. } = self;
        writeln!(f, "{streams} streams, each passes on {arrays_per_step} arrays per step, on {device}; medians")?;
        writeln!(f, "  with a scope   {scoped_us:10.1} us")?;
        if let (Some(plain), Some(ratio)) = (self.plain_us, self.scoped_over_plain) {
            writeln!(f, "  plain cudarc   {plain:10.1} us, {ratio:.2} x as long")?;
        }
        let Report { events_per_drop, queries_per_drop, waits_per_drop, .. } = self;
        write!(
            f,
            "  calls per drop: {events_per_drop:.3} events, {queries_per_drop:.3} queries, {waits_per_drop:.3} waits"
        )
    }
}
