//! Each thread has its own cache for a scope's name, and arrays may move between threads: `cargo run --example threads`.

use std::sync::mpsc;
use std::thread;

use gpucache::{cache_scope, prelude::*};

fn main() -> gpucache::Result<()> {
    let host = Host::new();
    let (sender, receiver) = mpsc::sync_channel(2);
    let total: f32 = thread::scope(|scope| {
        // The loader allocates batches in its own scope. When the trainer drops a batch, its memory returns to the loader.
        let loader = scope.spawn(move || -> gpucache::Result<()> {
            for step in 0..1000 {
                let batch = cache_scope!(batches, { Array::full(&host, [32, 64], step as f32)? });
                if sender.send(batch).is_err() {
                    break;
                }
            }
            let stats = gpucache::stats("batches").unwrap_or_default();
            println!("1000 batches through {} blocks of memory", stats.allocations() - stats.hits);
            Ok(())
        });
        let sum = receiver.iter().map(|batch: Array<f32, Host>| batch[0]).sum();
        loader.join().map(|loaded| loaded.map(|()| sum)).unwrap_or(Ok(f32::NAN))
    })?;
    println!("sum of the first elements: {total}");
    Ok(())
}
