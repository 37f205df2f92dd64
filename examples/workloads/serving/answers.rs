//! Decoders that write one batch of answers after the other. The cache of keys and values grows by concatenation: each token makes a longer
//! array and drops the shorter one.

use fastrand::Rng;

use crate::network::{Layers, NUMBER, Transformer, evaluate};
use crate::tape::{Held, Tape};

/// Answers of a program. An answer has as many allocations as several steps of a training, so there are fewer of them.
pub(super) const ANSWERS: u64 = 40;

/// Keys and values of each layer, and their rows.
#[derive(Debug)]
pub(super) struct Cache {
    halves: Vec<Held>,
    pub(super) rows: u64,
}

/// A decoder with its weights.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) model: Transformer,
    _weights: Vec<Held>,
}

/// Allocates the weights of a network that is not trained.
pub(super) fn weights(tape: &Tape, layers: &Layers) -> Vec<Held> {
    tape.arrays(layers.iter().flatten().map(|op| op.weight).filter(|weight| *weight > 0))
}

impl Decoder {
    pub(super) fn new(tape: &Tape, model: Transformer) -> Self {
        Self { model, _weights: weights(tape, &model.all(1, 1)) }
    }

    pub(super) fn row(&self, batch: u64) -> u64 {
        batch * self.model.width * NUMBER
    }

    /// Replaces the cache by one with other rows.
    pub(super) fn resize(&self, tape: &Tape, cache: &mut Cache, batch: u64, rows: u64) {
        cache.rows = rows;
        cache.halves.iter_mut().for_each(|half| *half = tape.array(self.row(batch) * rows));
    }

    /// Computes `length` more tokens of each text of a batch, and appends their keys and values to the cache.
    pub(super) fn extend(&self, tape: &Tape, cache: &mut Cache, batch: u64, length: u64) {
        let (row, old) = (self.row(batch), cache.rows);
        cache.rows += length;
        let mut hidden = tape.array(row * length);
        for layer in 0..self.model.layers as usize {
            let halves = tape.arrays([row * length; 2]);
            for half in 0..2 {
                let longer = tape.array(row * cache.rows);
                match cache.halves.get_mut(2 * layer + half) {
                    Some(half) => *half = longer,
                    None => cache.halves.push(longer),
                }
            }
            drop(halves);
            let scores = tape.array(batch * self.model.heads * length * (old + length) * NUMBER);
            let mixed = tape.array(row * length);
            drop(scores);
            let wide = tape.array(4 * row * length);
            drop(mixed);
            hidden = tape.array(row * length);
            drop(wide);
        }
        let chances = tape.array(batch * self.model.words * NUMBER);
        drop(hidden);
        tape.temporary(batch * 8);
        drop(chances);
    }

    /// Reads a prompt into a new cache.
    pub(super) fn read(&self, tape: &Tape, batch: u64, prompt: u64) -> Cache {
        let mut cache = Cache { halves: Vec::new(), rows: 0 };
        self.extend(tape, &mut cache, batch, prompt);
        cache
    }
}

/// Batch, prompt and tokens of an answer.
fn request(random: &mut Rng) -> (u64, u64, u64) {
    (random.u64(1..=4), random.u64(8..=256), random.u64(10..=80))
}

/// A step is a whole answer.
pub(super) fn answers(tape: &Tape, random: &mut Rng) {
    let decoder = Decoder::new(tape, Transformer { layers: random.u64(3..=5), ..Transformer::draw(random) });
    for _ in 0..ANSWERS {
        let (batch, prompt, tokens) = request(random);
        tape.step("answer", || {
            let mut cache = decoder.read(tape, batch, prompt);
            (0..tokens).for_each(|_| decoder.extend(tape, &mut cache, batch, 1));
        });
    }
}

/// A step is a token; the prompt is another step.
pub(super) fn by_token(tape: &Tape, random: &mut Rng) {
    let decoder = Decoder::new(tape, Transformer { layers: random.u64(3..=5), ..Transformer::draw(random) });
    for _ in 0..ANSWERS {
        let (batch, prompt, tokens) = request(random);
        let mut cache = tape.step("prompt", || decoder.read(tape, batch, prompt));
        (0..tokens).for_each(|_| tape.step("token", || decoder.extend(tape, &mut cache, batch, 1)));
    }
}

/// An encoder reads a text of random length, and a decoder writes a text of about this length.
pub(super) fn translation(tape: &Tape, random: &mut Rng) {
    let encoder = Transformer { layers: random.u64(3..=5), ..Transformer::draw(random) };
    let decoder = Decoder::new(tape, encoder);
    let _weights = weights(tape, &encoder.all(1, 1));
    for _ in 0..ANSWERS {
        let (batch, length) = (random.u64(1..=8), random.u64(8..=64));
        let tokens = length * random.u64(80..=120) / 100;
        tape.step("text", || {
            let text = evaluate(tape, &encoder.all(batch, length).concat());
            let _seen = tape.arrays((0..2 * encoder.layers).map(|_| decoder.row(batch) * length));
            drop(text);
            let mut cache = decoder.read(tape, batch, 1);
            (1..tokens).for_each(|_| decoder.extend(tape, &mut cache, batch, 1));
        });
    }
}

/// A small decoder drafts four tokens, and a larger one verifies them. Both caches lose the tokens that it rejects. A step is such a round.
pub(super) fn speculative(tape: &Tape, random: &mut Rng) {
    let large = Transformer { layers: random.u64(4..=6), ..Transformer::draw(random) };
    let (draft, large) = (Transformer { layers: 1, ..large }, Decoder::new(tape, large));
    let draft = Decoder::new(tape, draft);
    for _ in 0..ANSWERS / 4 {
        let (_, prompt, tokens) = request(random);
        let mut caches = tape.step("prompt", || [&draft, &large].map(|decoder| decoder.read(tape, 1, prompt)));
        while caches[1].rows < prompt + tokens {
            let rows = caches[1].rows + random.u64(1..=5);
            tape.step("round", || {
                (0..4).for_each(|_| draft.extend(tape, &mut caches[0], 1, 1));
                large.extend(tape, &mut caches[1], 1, 5);
                draft.resize(tape, &mut caches[0], 1, rows);
                large.resize(tape, &mut caches[1], 1, rows);
            });
        }
    }
}
