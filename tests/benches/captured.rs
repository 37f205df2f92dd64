//! The time that one run of a captured scope takes on the calling thread, in nanoseconds, beside a launch of the same work by `Graph`.
//!
//! `cargo bench --bench captured -- --json`. It needs a GPU, or uses the made-up driver, whose launches cost other times than those of a
//! GPU: then only the differences tell something.

use std::time::Instant;

use gpucache::graph::CapturedScope;
use gpucache::prelude::*;
use gpucache_tests::captured::Adds;
use gpucache_tests::gpu::Gpu;
use gpucache_tests::timing::{Options, median};

const LEN: usize = 256;
/// Launches in a row, between two waits: so few that the driver's queue never makes the thread wait.
const LAUNCHES: u32 = 20;
const BATCHES: usize = 501;

fn nanoseconds(stream: &Cuda, mut subject: impl FnMut() -> gpucache::Result<()>) -> gpucache::Result<f64> {
    stream.synchronize()?;
    let start = Instant::now();
    for _ in 0..LAUNCHES {
        subject()?;
    }
    let time = start.elapsed();
    stream.synchronize()?;
    Ok(time.as_nanos() as f64 / f64::from(LAUNCHES))
}

/// `input + 1`, in a new array.
fn sum(input: &Array<u32, Cuda>) -> gpucache::Result<Array<u32, Cuda>> {
    let mut output = Array::zeros(input.device(), input.len())?;
    input.device().add(&mut output, input, 1)?;
    Ok(output)
}

fn main() -> gpucache::Result<()> {
    let wants_json = Options::wants_json();
    let Some(gpu) = Gpu::get() else { return Ok(()) };
    let stream = gpu.new_stream();
    let input = Array::full(&stream, LEN, 1u32)?;
    let mut output = Array::zeros(&stream, LEN)?;
    let mut written = CapturedScope::new(&stream, "written");
    let mut returned = CapturedScope::new(&stream, "returned");
    let mut within = CapturedScope::new(&stream, "within");
    let (graph, ()) = {
        let mut output = Array::zeros(&stream, LEN)?;
        stream.capture(|| stream.add(&mut output, &input, 1))?
    };
    let mut rounds: [Vec<f64>; 4] = Default::default();
    for _ in 0..BATCHES {
        rounds[0].push(nanoseconds(&stream, || graph.launch())?);
        rounds[1].push(nanoseconds(&stream, || {
            written.run((), (&input, &mut output), |(input, output)| stream.add(output, input, 1))
        })?);
        rounds[2].push(nanoseconds(&stream, || returned.run((), &input, sum).map(drop))?);
        let _around = gpucache::Scope::new("around").enter();
        rounds[3].push(nanoseconds(&stream, || within.run((), &input, sum).map(drop))?);
    }
    let [launch, written, returned, within] = rounds.map(median);
    if wants_json {
        println!(
            "{{\"launch_ns\": {launch:.1}, \"written_ns\": {written:.1}, \"returned_ns\": {returned:.1}, \"within_ns\": {within:.1}}}"
        );
    } else {
        println!("launch of a graph                {launch:>8.0} ns");
        println!("run that writes an input         {written:>8.0} ns");
        println!("run that returns an array        {returned:>8.0} ns, {within:.0} ns inside a scope");
    }
    Ok(())
}
