//! Servers that compute one result for each request, without a cache of keys and values.

use fastrand::Rng;

use super::answers::weights;
use crate::network::{Convolutions, NUMBER, Transformer, evaluate};
use crate::tape::{Held, Tape};

/// Requests of a program that serves each of them at once: each of 32 batch sizes comes three times.
const REQUESTS: u64 = 100;
/// Images of a program that makes images: each of four sizes comes five times.
const IMAGES: u64 = 20;
/// Iterations that make an image: the default of Stable Diffusion.
const ITERATIONS: u64 = 50;

/// A program that makes images of noise.
#[derive(Debug)]
struct Diffusion {
    text: Transformer,
    network: Convolutions,
    _weights: [Vec<Held>; 2],
}

impl Diffusion {
    fn new(tape: &Tape, random: &mut Rng) -> Self {
        let text = Transformer { layers: 2, ..Transformer::draw(random) };
        let network = Convolutions { blocks: 1, ..Convolutions::draw(random) };
        Self { text, network, _weights: [weights(tape, &text.all(1, 1)), weights(tape, &network.all(1, 64))] }
    }

    /// The prompt and the noise. The prompt has 77 tokens, as that of Stable Diffusion.
    fn begin(&self, tape: &Tape, side: u64) -> (Option<Held>, Held) {
        (evaluate(tape, &self.text.all(2, 77).concat()), tape.array(4 * side * side * NUMBER))
    }

    /// Replaces the image by one with less noise.
    fn iterate(&self, tape: &Tape, side: u64, image: &mut Held) {
        let noise = evaluate(tape, &self.network.all(2, 2 * side).concat());
        let guided = tape.array(image.bytes());
        drop(noise);
        *image = tape.array(image.bytes());
        drop(guided);
    }

    /// Decodes the image to eight times its side.
    fn end(tape: &Tape, side: u64) {
        let mut last = None;
        for scale in [1, 2, 4, 8] {
            let pixels = (scale * side).pow(2) * NUMBER;
            drop(tape.array(64 * pixels));
            last = Some(tape.arrays([64 * pixels, 32 * pixels]));
        }
        tape.temporary(3 * (8 * side).pow(2));
        drop(last);
    }
}

/// The side of a latent image: one of four.
fn side(random: &mut Rng) -> u64 {
    [32, 48, 64, 96][random.usize(..4)]
}

/// A step is a whole image.
pub(super) fn diffusion(tape: &Tape, random: &mut Rng) {
    let program = Diffusion::new(tape, random);
    for _ in 0..IMAGES {
        let side = side(random);
        tape.step("image", || {
            let (prompt, mut image) = program.begin(tape, side);
            (0..ITERATIONS).for_each(|_| program.iterate(tape, side, &mut image));
            drop(prompt);
            Diffusion::end(tape, side);
        });
    }
}

/// A step is one iteration of an image. Its beginning and its end are steps too.
pub(super) fn diffusion_by_iteration(tape: &Tape, random: &mut Rng) {
    let program = Diffusion::new(tape, random);
    for _ in 0..IMAGES {
        let side = side(random);
        let (prompt, mut image) = tape.step("begin", || program.begin(tape, side));
        (0..ITERATIONS).for_each(|_| tape.step("iteration", || program.iterate(tape, side, &mut image)));
        drop(prompt);
        tape.step("end", || Diffusion::end(tape, side));
    }
}

/// Classifies batches of 1 to 32 images.
pub(super) fn batch_server(tape: &Tape, random: &mut Rng) {
    let (model, side) = (Convolutions::draw(random), 32 * random.u64(2..=7));
    let _weights = weights(tape, &model.all(1, side));
    for _ in 0..REQUESTS {
        let batch = random.u64(1..=32);
        tape.step("request", || drop(evaluate(tape, &model.all(batch, side).concat())));
    }
}

/// Batches of texts, padded to the longest text, become a vector each. The last 16 results are kept.
pub(super) fn embeddings(tape: &Tape, random: &mut Rng) {
    let model = Transformer::draw(random);
    let _weights = weights(tape, &model.all(1, 1));
    let mut results = std::collections::VecDeque::new();
    for _ in 0..REQUESTS {
        let batch = random.u64(1..=16);
        let longest = (0..batch).map(|_| random.u64(8..=256)).max().unwrap_or(8);
        tape.step("request", || {
            let texts = tape.arrays([batch * longest * 8; 2]);
            let layers = model.all(batch, longest);
            let hidden = evaluate(tape, &layers[..layers.len() - 1].concat());
            results.push_back(tape.array(batch * model.width * NUMBER));
            drop((texts, hidden));
            if results.len() > 16 {
                results.pop_front();
            }
        });
    }
}
