//! The innermost scope serves an allocation; `uncached!` leaves all scopes: `cargo run --example nesting`.

use gpucache::{cache_scope, prelude::*, uncached};

fn main() -> gpucache::Result<()> {
    let host = Host::new();
    let mut best = None;
    for step in 0..4 {
        cache_scope!(outer, {
            let batch = Array::full(&host, 1000, step as f32)?;
            // A name can be any expression: here one cache for each of two models. The layers of one model need no scopes of their own.
            let model = if step % 2 == 0 { "teacher" } else { "student" };
            let sum: f32 = cache_scope!(name = format!("{model} forward"), {
                let squares = batch.try_clone()?;
                squares.iter().sum()
            });
            // Arrays that live long need not come from a cache.
            best = Some(uncached!({ Array::full(&host, 1, sum)? }));
        });
    }
    for name in ["outer", "teacher forward", "student forward"] {
        let stats = gpucache::stats(name).unwrap_or_default();
        println!("{name}: {} hits, {} recycled, {} misses", stats.hits, stats.recycled, stats.misses);
    }
    println!("kept outside of scopes: {:?}", best.map(|array| array.to_vec()).transpose()?);
    Ok(())
}
