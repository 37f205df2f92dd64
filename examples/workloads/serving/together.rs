//! Decoders that write several answers at once.

use fastrand::Rng;

use super::answers::{ANSWERS, Cache, Decoder, weights};
use crate::network::{NUMBER, Transformer, evaluate};
use crate::tape::Tape;

/// Tokens of a program that computes one token of all its answers at a time. Some 25 answers begin and end in that time.
const TOKENS: u64 = 400;
/// Tokens in a block of the paged cache, as in vLLM.
const BLOCK: u64 = 16;

/// An answer that is being written.
#[derive(Debug)]
struct Running<C> {
    cache: C,
    rows: u64,
    last: u64,
}

/// Starts an answer in one of four tokens, if fewer than 16 are being written. Returns its prompt and its last row.
fn joins(running: usize, random: &mut Rng) -> Option<(u64, u64)> {
    let (joins, prompt, tokens) = (random.u64(..4) == 0, random.u64(8..=256), random.u64(10..=80));
    (running == 0 || joins && running < 16).then_some((prompt, prompt + tokens))
}

/// All keys and values are in blocks that are allocated before the first request. A step is a token of all running answers.
pub(super) fn paged_cache(tape: &Tape, random: &mut Rng) {
    let model = Transformer { layers: random.u64(3..=6), ..Transformer::draw(random) };
    let _weights = weights(tape, &model.all(1, 1));
    let _blocks = tape.arrays((0..2 * model.layers).map(|_| 512 * BLOCK * model.width * NUMBER));
    let mut running: Vec<Running<()>> = Vec::new();
    for _ in 0..TOKENS {
        if let Some((rows, last)) = joins(running.len(), random) {
            tape.step("prompt", || drop(evaluate(tape, &model.all(1, rows).concat())));
            running.push(Running { cache: (), rows, last });
        }
        running.iter_mut().for_each(|answer| answer.rows += 1);
        let (batch, longest) = (running.len() as u64, running.iter().map(|answer| answer.rows).max().unwrap_or(1));
        tape.step("token", || {
            let tables = tape.arrays([batch * longest.div_ceil(BLOCK) * 4, batch * 8, batch * 4]);
            let layer = |_| model.layer(batch, 1, longest);
            let ops: Vec<_> = (0..model.layers).flat_map(layer).chain(model.head(batch, 1)).collect();
            drop(evaluate(tape, &ops));
            drop(tables);
        });
        running.retain(|answer| answer.rows < answer.last);
    }
}

/// Each answer has its own cache, which gets room for 16 more tokens when it is full. Answers join and leave at each token.
pub(super) fn continuous_batching(tape: &Tape, random: &mut Rng) {
    let model = Transformer { layers: random.u64(2..=4), ..Transformer::draw(random) };
    let decoder = Decoder::new(tape, model);
    let mut running: Vec<Running<Cache>> = Vec::new();
    for _ in 0..TOKENS {
        let joining = joins(running.len(), random);
        tape.step("token", || {
            if let Some((rows, last)) = joining {
                running.push(Running { cache: decoder.read(tape, 1, rows), rows, last });
            }
            for answer in &mut running {
                answer.rows += 1;
                if answer.rows > answer.cache.rows {
                    decoder.resize(tape, &mut answer.cache, 1, answer.rows.next_multiple_of(BLOCK));
                }
            }
            let (batch, longest) = (running.len() as u64, running.iter().map(|answer| answer.rows).max().unwrap_or(1));
            let layer = |_| model.layer(batch, 1, longest);
            let ops: Vec<_> = (0..model.layers).flat_map(layer).chain(model.head(batch, 1)).collect();
            drop(evaluate(tape, &ops));
            running.retain(|answer| answer.rows < answer.last);
        });
    }
}

/// Each token keeps the best beams: it copies the cache of each layer in another order. A step is a whole answer.
pub(super) fn beam_search(tape: &Tape, random: &mut Rng) {
    let model = Transformer { layers: 2, ..Transformer::draw(random) };
    let (decoder, beams) = (Decoder::new(tape, model), random.u64(2..=6));
    for _ in 0..ANSWERS {
        let (prompt, tokens) = (random.u64(8..=128), random.u64(10..=32));
        tape.step("answer", || {
            let mut cache = decoder.read(tape, 1, prompt);
            decoder.resize(tape, &mut cache, beams, prompt);
            for _ in 0..tokens {
                decoder.extend(tape, &mut cache, beams, 1);
                drop(tape.arrays([beams * model.words * NUMBER, 2 * beams * NUMBER, 2 * beams * 8]));
                let rows = cache.rows;
                decoder.resize(tape, &mut cache, beams, rows);
            }
        });
    }
}
