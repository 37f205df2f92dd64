//! Serves requests of varying lengths from four threads, and keeps the memory of all of them within a limit.

use std::sync::{Mutex, mpsc};
use std::thread;

use gpucache::{Result, prelude::*};

const THREADS: usize = 4;
const REQUESTS: usize = 1000;

/// A request, and where its answer goes.
type Request = (usize, Vec<f32>, mpsc::Sender<(usize, Result<f32>)>);

/// One request: arrays whose sizes depend on its length.
#[cache_scope(request)]
fn answer(device: &Host, tokens: &[f32]) -> Result<f32> {
    let input = Array::from_slice(device, tokens.len(), tokens)?;
    let mut hidden = device.zeros::<f32>([tokens.len(), 256])?;
    hidden.chunks_mut(256).zip(&input[..]).for_each(|(row, x)| row.fill(*x));
    let mut scores = device.zeros::<f32>(tokens.len())?;
    scores.iter_mut().zip(hidden.chunks(256)).for_each(|(score, row)| *score = row.iter().sum::<f32>() / 256.0);
    Ok(scores.iter().sum())
}

fn main() -> Result<()> {
    let device = Host::new();
    device.set_limit("64MiB")?; // an allocation beyond it is an error of its request, not the end of the server
    let (requests, queue) = mpsc::channel::<Request>();
    let (queue, (answers, results)) = (Mutex::new(queue), mpsc::channel());
    thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| {
                let next = || queue.lock().ok()?.recv().ok();
                while let Some((number, tokens, reply)) = next() {
                    let result = answer(&device, &tokens);
                    let _ = reply.send((number, result)); // the client may have left
                }
            });
        }
        for number in 0..REQUESTS {
            let length = 1 + number * 37 % 1000;
            let _ = requests.send((number, vec![1.0; length], answers.clone()));
        }
        drop((requests, answers)); // the threads end when the queue is empty
        let (mut served, mut failed) = (0, 0);
        for (number, result) in results {
            match result {
                Ok(sum) => served += usize::from(sum == (1 + number * 37 % 1000) as f32),
                Err(error) => {
                    failed += 1;
                    eprintln!("request {number}: {error}");
                }
            }
        }
        println!("{served} requests served, {failed} failed");
    });
    println!("{:#}", gpucache::stats("request").unwrap_or_default());
    println!("{} MiB reserved at most", device.memory().peak_bytes >> 20);
    Ok(())
}
