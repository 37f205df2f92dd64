//! Trains layers that need 48 MiB on a device that may hold 16 MiB.

use gpucache::{Result, cache_scope, offload::Placed, prelude::*};

const LAYERS: usize = 6;
const LEN: usize = 1 << 20; // 4 MiB for each array
const STEPS: usize = 20;

/// The arrays of a layer. Each may leave the device while no operation uses it.
struct Layer {
    weights: Placed<f32, Host>,
    moments: Placed<f32, Host>,
}

fn update(device: &Host, layer: &mut Layer) -> Result<()> {
    let (mut weights, mut moments) = (layer.weights.fetch_mut()?, layer.moments.fetch_mut()?);
    // `&mut *weights` is the array inside the guard.
    device.launch((&mut *weights, &mut *moments), |(weights, moments)| {
        for (weight, moment) in weights.iter_mut().zip(moments) {
            *moment = 0.5 * *moment + 0.5;
            *weight -= *moment;
        }
    }) // the guards end here; both arrays may leave after this work
}

fn main() -> Result<()> {
    let device = Host::new_stream()?; // or `Cuda::new(0)?`
    device.set_limit("16MiB")?;
    let mut layers = Vec::new();
    for _ in 0..LAYERS {
        layers.push(Layer { weights: Placed::zeros(&device, LEN)?, moments: Placed::zeros(&device, LEN)? });
    }
    for _ in 0..STEPS {
        // The scope learns the order in which arrays are fetched. From then on, they are prefetched.
        cache_scope!(train_step, { layers.iter_mut().try_for_each(|layer| update(&device, layer))? });
    }
    println!("first weight: {:.3}", layers[0].weights.to_vec()?[0]);
    println!("48 MiB of arrays, at most {} MiB on the device", device.memory().peak_bytes >> 20);
    let moves = device.stats().offload;
    println!("{} MiB moved to the device, {} MiB to the host", moves.bytes_in >> 20, moves.bytes_out >> 20);
    println!("{} arrays prefetched, {} fetched on demand", moves.prefetched, moves.demanded);
    Ok(())
}
