//! Networks as lists of operations, and the arrays that a pass over one of them allocates.
//!
//! A network is a list of layers, and a layer is a list of operations. The sizes of an operation follow from the shape of the batch.

use fastrand::Rng;

use crate::tape::{Held, Tape};

/// The bytes of a number (`f32`).
pub(crate) const NUMBER: u64 = 4;

/// One operation, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Op {
    /// The result.
    pub(crate) out: u64,
    /// A temporary array of the operation; 0 if it has none.
    pub(crate) temporary: u64,
    /// The weight; 0 if it has none.
    pub(crate) weight: u64,
    /// The number of the weight. Operations with the same number share it.
    pub(crate) number: usize,
    /// Whether the result waits for the backward pass. If not, the next operation alone uses it.
    pub(crate) is_saved: bool,
}

/// The layers of a network.
pub(crate) type Layers = Vec<Vec<Op>>;

/// An operation whose result waits for the backward pass.
pub(crate) fn saved(out: u64) -> Op {
    Op { out, is_saved: true, ..Op::default() }
}

/// An operation whose result only the next one uses.
pub(crate) fn passing(out: u64) -> Op {
    Op { out, ..Op::default() }
}

impl Op {
    pub(crate) fn with_weight(self, weight: u64) -> Self {
        Self { weight, ..self }
    }

    pub(crate) fn with_temporary(self, temporary: u64) -> Self {
        Self { temporary, ..self }
    }
}

/// Gives each operation its own weight.
pub(crate) fn numbered(mut layers: Layers) -> Layers {
    layers.iter_mut().flatten().enumerate().for_each(|(number, op)| op.number = number);
    layers
}

/// A forward pass for a training: the results that wait for the backward pass. The last result is among them.
pub(crate) fn forward(tape: &Tape, ops: &[Op]) -> Vec<Held> {
    let (mut waiting, mut last) = (Vec::new(), None);
    for (index, op) in ops.iter().enumerate() {
        let temporary = (op.temporary > 0).then(|| tape.array(op.temporary));
        let out = tape.array(op.out);
        drop((temporary, last.take()));
        match op.is_saved || index + 1 == ops.len() {
            true => waiting.push(out),
            false => last = Some(out),
        }
    }
    waiting
}

/// A forward pass alone: each result is dropped once the next one is there. Returns the last one.
pub(crate) fn evaluate(tape: &Tape, ops: &[Op]) -> Option<Held> {
    let mut last = None;
    for op in ops {
        let temporary = (op.temporary > 0).then(|| tape.array(op.temporary));
        let out = tape.array(op.out);
        drop((temporary, last.replace(out)));
    }
    last
}

/// A decoder of texts, with an embedding before its layers and a head behind them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transformer {
    pub(crate) layers: u64,
    pub(crate) width: u64,
    pub(crate) heads: u64,
    pub(crate) words: u64,
}

impl Transformer {
    /// Sizes from those of a small model to those of GPT-2.
    pub(crate) fn draw(random: &mut Rng) -> Self {
        let heads = random.u64(4..=12);
        let words = [2_000, 8_000, 16_000][random.usize(..3)];
        Self { layers: random.u64(3..=8), width: 64 * heads, heads, words }
    }

    /// One layer for sequences of `length`. The attention sees `seen` positions, which are more than `length` with a cache.
    pub(crate) fn layer(&self, batch: u64, length: u64, seen: u64) -> Vec<Op> {
        let (width, rows) = (self.width * NUMBER, batch * length);
        let scores = batch * self.heads * length * seen * NUMBER;
        vec![
            saved(rows * 8), // mean and deviation of each row
            saved(rows * width).with_weight(2 * width),
            saved(3 * rows * width).with_weight(3 * self.width * width),
            saved(scores).with_temporary(scores),
            saved(rows * width),
            passing(rows * width).with_weight(self.width * width),
            saved(rows * width),
            saved(rows * 8),
            saved(rows * width).with_weight(2 * width),
            saved(4 * rows * width).with_weight(4 * self.width * width),
            saved(4 * rows * width),
            passing(rows * width).with_weight(4 * self.width * width),
            saved(rows * width),
        ]
    }

    /// The embedding of a batch.
    pub(crate) fn embedding(&self, batch: u64, length: u64) -> Vec<Op> {
        let rows = batch * length;
        vec![saved(rows * 8), saved(rows * self.width * NUMBER).with_weight(self.words * self.width * NUMBER)]
    }

    /// The chances of all words at each position, and their loss.
    pub(crate) fn head(&self, batch: u64, length: u64) -> Vec<Op> {
        let chances = batch * length * self.words * NUMBER;
        vec![
            saved(batch * length * self.width * NUMBER).with_weight(2 * self.width * NUMBER),
            saved(chances).with_weight(self.words * self.width * NUMBER),
            saved(chances),
            saved(NUMBER),
        ]
    }

    pub(crate) fn all(&self, batch: u64, length: u64) -> Layers {
        let layers = (0..self.layers).map(|_| self.layer(batch, length, length));
        let first = std::iter::once(self.embedding(batch, length));
        numbered(first.chain(layers).chain([self.head(batch, length)]).collect())
    }
}

/// A network of convolutions for images, in four stages of half the side and twice the channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convolutions {
    /// Blocks of each stage.
    pub(crate) blocks: u64,
    /// Channels of the first stage.
    pub(crate) channels: u64,
}

impl Convolutions {
    pub(crate) fn draw(random: &mut Rng) -> Self {
        Self { blocks: random.u64(1..=3), channels: 16 * random.u64(2..=4) }
    }

    /// A block: two convolutions, each with a normalization and a rectification.
    fn block(&self, stage: u64, batch: u64, side: u64) -> Vec<Op> {
        let (channels, side) = (self.channels << stage, (side >> (stage + 1)).max(1));
        let out = batch * channels * side * side * NUMBER;
        let convolution = saved(out).with_weight(9 * channels * channels * NUMBER).with_temporary(out / 2 + 512);
        let normalization = saved(out).with_weight(2 * channels * NUMBER);
        let one = [convolution, saved(2 * channels * NUMBER), normalization, saved(out)];
        [&one[..], &one, &[passing(out)]].concat()
    }

    pub(crate) fn all(&self, batch: u64, side: u64) -> Layers {
        let input = vec![saved(batch * 3 * side * side * NUMBER)];
        let stages = (0..4).flat_map(|stage| (0..self.blocks).map(move |_| self.block(stage, batch, side)));
        let features = self.channels << 3;
        let classes = vec![
            saved(batch * features * NUMBER),
            saved(batch * 1000 * NUMBER).with_weight(features * 1000 * NUMBER),
            saved(batch * 1000 * NUMBER),
            saved(NUMBER),
        ];
        numbered(std::iter::once(input).chain(stages).chain([classes]).collect())
    }
}

/// Dense layers of one width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dense {
    pub(crate) layers: u64,
    pub(crate) width: u64,
}

impl Dense {
    pub(crate) fn draw(random: &mut Rng) -> Self {
        Self { layers: random.u64(6..=20), width: 256 * random.u64(1..=8) }
    }

    pub(crate) fn all(&self, batch: u64) -> Layers {
        let row = self.width * NUMBER;
        let layer = vec![saved(batch * row).with_weight(self.width * row), saved(batch * row)];
        numbered((0..self.layers).map(|_| layer.clone()).collect())
    }
}
