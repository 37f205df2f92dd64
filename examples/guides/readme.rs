//! The first program of the README: arrays of a loop whose memory is reused.

use gpucache::{cache_scope, prelude::*}; // cache_scope! is at the root, #[cache_scope] in the prelude

fn main() -> gpucache::Result<()> {
    let device = Host::new(); // or `Cuda::new(0)?`
    for _ in 0..100 {
        cache_scope!(step, {
            // The next iteration reuses the memory of these arrays.
            let activations = Array::full(&device, [64, 256], 0.5f32)?;
            let _gradients = activations.try_clone()?;
        });
    }
    println!("{:#}", gpucache::stats("step").unwrap_or_default());
    Ok(())
}
