//! A training loop whose memory grows, and how to find out why.

use std::fs::File;

use gpucache::{Result, cache_scope, prelude::*, trace};

const STEPS: usize = 100;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = Host::new();
    let mut history = Vec::new();
    trace::start(100_000); // events that are kept for each thread
    for step in 1..=STEPS {
        let loss = train_step(&device, step)?;
        history.push(loss); // the mistake: one array more in each step
        if step % 25 == 0 {
            println!("step {step}: {} KiB reserved", device.memory().bytes >> 10);
        }
    }
    if let Some(diagnosis) = gpucache::diagnose("train_step") {
        println!("{diagnosis}");
    }
    let path = std::env::temp_dir().join("memory_grows.csv");
    trace::stop().write_csv(File::create(&path)?)?;
    Ok(())
}

fn train_step(device: &Host, step: usize) -> Result<Array<f32, Host>> {
    cache_scope!(train_step, {
        let activations = Array::full(device, [64, 256], 1.0 / step as f32)?;
        let mut losses = device.zeros::<f32>([64, 32])?;
        losses.iter_mut().zip(activations.iter()).for_each(|(loss, x)| *loss = x * x);
        Ok(losses)
    })
}
