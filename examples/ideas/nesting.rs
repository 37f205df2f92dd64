//! The innermost scope serves an allocation; `uncached!` leaves all scopes: `cargo run --example nesting`.

use gpucache::{cache_scope, prelude::*, uncached};

fn main() -> gpucache::Result<()> {
    let host = Host::new();
    let mut best = None;
    for layer in 0..3 {
        cache_scope!(outer, {
            let activations = Array::full(&host, 1000, layer as f32)?;
            // A name can be any expression: one cache for each layer.
            let sum: f32 = cache_scope!(name = format!("layer{layer}"), {
                let squares = activations.try_clone()?;
                squares.iter().sum()
            });
            // Arrays that live long need not come from a cache.
            best = Some(uncached!({ Array::full(&host, 1, sum)? }));
        });
    }
    for name in ["outer", "layer0", "layer1", "layer2"] {
        let stats = gpucache::stats(name).unwrap_or_default();
        println!("{name}: {} hits, {} recycled, {} misses", stats.hits, stats.recycled, stats.misses);
    }
    println!("kept outside of scopes: {:?}", best.map(|array| array.to_vec()).transpose()?);
    Ok(())
}
