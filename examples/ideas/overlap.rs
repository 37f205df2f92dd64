//! A data loader runs on its own stream, one batch ahead of the training step. This works on any machine.
//!
//! `cargo run --release --example overlap`

use std::time::{Duration, Instant};

use gpucache::prelude::*;

const BATCH: usize = 1 << 16;
const STEPS: usize = 50;
/// The time to read a batch from a disk.
const READING: Duration = Duration::from_millis(2);

/// Loads the next batch. Work on the loader's stream reads and scales it later.
#[cache_scope(load)]
fn load(loader: &Host, number: usize) -> gpucache::Result<Array<f32, Host>> {
    let mut batch = Array::zeros(loader, BATCH)?;
    loader.launch(&mut batch, move |batch| {
        std::thread::sleep(READING);
        batch.iter_mut().enumerate().for_each(|(i, x)| *x = ((number + i) % 7) as f32 / 7.0);
    })?;
    Ok(batch)
}

/// Adds the gradient of a batch to the weights. The trainer's stream waits only for the loader's work on this batch.
#[cache_scope(train_step)]
fn train(trainer: &Host, weights: &mut Array<f32, Host>, batch: &Array<f32, Host>) -> gpucache::Result<()> {
    let mut gradient = Array::<f32, _>::zeros(trainer, BATCH)?;
    trainer.launch((&mut gradient, batch), |(gradient, batch)| {
        gradient.iter_mut().zip(batch).for_each(|(g, x)| *g = (0..64).fold(*x, |y, _| y * 0.9 + x * 0.1));
    })?;
    trainer.launch((weights, &gradient), |(weights, gradient)| {
        weights.iter_mut().zip(gradient).for_each(|(w, g)| *w += g);
    })
    // `gradient` is dropped while the work may still be running. Its memory is reused only behind that work.
}

/// Runs all steps. With `ahead` the next batch is loaded during a step, otherwise after it.
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
    println!(
        "{STEPS} steps: {one_by_one:.0?} if each batch is loaded after the step, {ahead:.0?} if it is loaded during the step"
    );
    Ok(())
}
