//! `invalidate` frees a scope's memory, and reports what is still in use: `cargo run --example invalidate`.

use gpucache::{cache_scope, prelude::*};

fn main() -> gpucache::Result<()> {
    let host = Host::new();
    let kept = cache_scope!(eval, {
        let scores = Array::<f32, _>::zeros(&host, [1000, 10])?;
        let _scratch = Array::<f32, _>::zeros(&host, 1 << 20)?;
        scores // leaves the scope, and stays valid
    });
    println!("reserved: {} bytes", host.memory().bytes);

    let returned = invalidate("eval");
    println!("returned: {} bytes; arrays still in use: {}", returned.bytes, returned.busy_blocks);

    drop(kept); // this frees the last block of the invalidated cache
    println!("reserved: {} bytes", host.memory().bytes);
    Ok(())
}
