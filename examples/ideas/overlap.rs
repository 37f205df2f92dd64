//! A data loader on a stream of its own, one batch ahead of the training step, on any machine.
//!
//! `cargo run --release --example overlap`

use std::time::{Duration, Instant};

use gpucache::prelude::*;

const BATCH: usize = 1 << 16;
const STEPS: usize = 50;
/// What reading a batch from a disk takes.
const READING: Duration = Duration::from_millis(2);

/// The next batch, read and scaled by work that is done later, on the loader's stream.
#[cache_scope(load)]
fn load(loader: &Host, number: usize) -> gpucache::Result<Array<f32, Host>> {
    let mut batch = Array::zeros(loader, BATCH)?;
    loader.launch(&mut batch, move |batch| {
        std::thread::sleep(READING);
        batch.iter_mut().enumerate().for_each(|(i, x)| *x = ((number + i) % 7) as f32 / 7.0);
    })?;
    Ok(batch)
}

/// Adds what the batch tells to the weights. The trainer's stream waits for the loader's work on this batch alone.
#[cache_scope(train_step)]
fn train(trainer: &Host, weights: &mut Array<f32, Host>, batch: &Array<f32, Host>) -> gpucache::Result<()> {
    let mut gradient = Array::<f32, _>::zeros(trainer, BATCH)?;
    trainer.launch((&mut gradient, batch), |(gradient, batch)| {
        gradient.iter_mut().zip(batch).for_each(|(g, x)| *g = (0..64).fold(*x, |y, _| y * 0.9 + x * 0.1));
    })?;
    trainer.launch((weights, &gradient), |(weights, gradient)| {
        weights.iter_mut().zip(gradient).for_each(|(w, g)| *w += g);
    })
    // `gradient` is dropped while the work may still be under way; its memory is used again only behind that.
}

/// All steps; the next batch is loaded before or after each one is waited for.
fn run(loader: &Host, trainer: &Host, ahead: bool) -> gpucache::Result<(Duration, f32)> {
    let start = Instant::now();
    let mut weights = Array::zeros(trainer, BATCH)?;
    let mut batch = load(loader, 0)?;
    for step in 1..=STEPS {
        train(trainer, &mut weights, &batch)?;
        if !ahead {
            trainer.synchronize()?;
        }
        batch = load(loader, step)?;
        if !ahead {
            loader.synchronize()?;
        }
    }
    let sum = weights.iter().sum();
    Ok((start.elapsed(), sum))
}

fn main() -> gpucache::Result<()> {
    let (loader, trainer) = (Host::new_stream()?, Host::new_stream()?);
    let (one_by_one, expected) = run(&loader, &trainer, false)?;
    let (ahead, sum) = run(&loader, &trainer, true)?;
    assert_eq!(sum, expected, "the order of the work is the same");
    println!("{STEPS} steps, one thing after the other: {one_by_one:.0?}; a batch ahead: {ahead:.0?}");
    Ok(())
}
