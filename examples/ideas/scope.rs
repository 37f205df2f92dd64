//! A scope recycles the arrays of a repeated block: `cargo run --example scope`.

use gpucache::prelude::*;

/// One "frame" allocates two arrays each time.
#[cache_scope(frame)]
fn frame(host: &Host, brightness: f32) -> gpucache::Result<f32> {
    let pixels = Array::full(host, [720, 1280], brightness)?;
    let mut blurred = Array::zeros(host, pixels.shape())?;
    blurred.iter_mut().zip(pixels.windows(2)).for_each(|(out, pair)| *out = (pair[0] + pair[1]) / 2.0);
    Ok(blurred[0])
}

fn main() -> gpucache::Result<()> {
    let host = Host::new();
    for i in 0..100 {
        assert_eq!(frame(&host, i as f32)?, i as f32);
    }
    let stats = gpucache::stats("frame").unwrap_or_default();
    println!("100 frames: {} arrays reused memory, {} did not", stats.hits + stats.recycled, stats.misses);
    println!("{stats}");
    Ok(())
}
