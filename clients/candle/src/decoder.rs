//! A decoder of llama2.c's shape in which no step depends on a number of the host: the key-value cache has its full length from the
//! start, and the position and the token are tensors. So every step makes the same calls, and one CUDA graph fits all tokens.

use anyhow::Result;
use candle_core::{D, DType, Device, Tensor};
use candle_nn::{Embedding, Linear, Module, RmsNorm, VarBuilder, embedding, linear_no_bias, ops, rms_norm, rotary_emb};
use candle_transformers::models::llama2_c::Config;

/// Weights and tables. Nothing in it changes after it was loaded.
pub(crate) struct Decoder {
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
    shape: Shape,
    cos: Tensor,
    sin: Tensor,
    /// Row `p` hides all positions after `p`.
    masks: Tensor,
    /// Added to the positions after each step.
    ones: Tensor,
}

/// What a step reads and writes in place: no tensor of it is ever replaced.
pub(crate) struct State {
    /// The last token.
    pub(crate) token: Tensor,
    /// The scores that chose it.
    pub(crate) logits: Tensor,
    /// The position of the next token, once for each element of a key: the indices of a scatter.
    positions: Tensor,
    /// Each layer's keys and values of all positions.
    cache: Vec<(Tensor, Tensor)>,
}

struct Layer {
    attention_norm: RmsNorm,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    feed_norm: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

#[derive(Clone, Copy)]
struct Shape {
    heads: usize,
    head_size: usize,
    length: usize,
}

/// The tensors of one step that all layers read.
struct Place<'a> {
    cos: Tensor,
    sin: Tensor,
    mask: Tensor,
    positions: &'a Tensor,
}

impl Decoder {
    /// # Errors
    /// If the builder lacks a weight. The model has as many heads for keys as for queries, as the sizes used here have.
    pub(crate) fn load(weights: VarBuilder, config: &Config) -> Result<Self> {
        let shape = Shape { heads: config.n_heads, head_size: config.dim / config.n_heads, length: config.seq_len };
        let device = weights.device().clone();
        let angles = angles(shape, &device)?;
        let layer = |index| Layer::load(weights.pp(format!("model.layers.{index}")), config);
        Ok(Self {
            embedding: embedding(config.vocab_size, config.dim, weights.pp("model.embed_tokens"))?,
            layers: (0..config.n_layers).map(layer).collect::<Result<_>>()?,
            norm: rms_norm(config.dim, config.norm_eps, weights.pp("model.norm"))?,
            head: linear_no_bias(config.dim, config.vocab_size, weights.pp("lm_head"))?,
            shape,
            cos: angles.cos()?,
            sin: angles.sin()?,
            masks: masks(shape, &device)?,
            ones: Tensor::ones(shape.of_one(), DType::U32, &device)?,
        })
    }

    /// The state before the first token.
    pub(crate) fn state(&self, config: &Config, device: &Device) -> Result<State> {
        let zeros = || Tensor::zeros(self.shape.of_all(), DType::F32, device);
        Ok(State {
            token: Tensor::zeros(1, DType::U32, device)?,
            logits: Tensor::zeros((1, config.vocab_size), DType::F32, device)?,
            positions: Tensor::zeros(self.shape.of_one(), DType::U32, device)?,
            cache: (0..self.layers.len()).map(|_| Ok((zeros()?, zeros()?))).collect::<Result<_>>()?,
        })
    }

    /// Reads the last token, and writes the next one, its logits, its keys and values, and the next position.
    pub(crate) fn step(&self, state: &State) -> Result<()> {
        let place = self.place(&state.positions)?;
        let mut x = self.embedding.forward(&state.token)?;
        for (layer, cache) in self.layers.iter().zip(&state.cache) {
            x = (layer.attention(&layer.attention_norm.forward(&x)?, self.shape, &place, cache)? + x)?;
            x = (layer.feed(&layer.feed_norm.forward(&x)?)? + x)?;
        }
        let logits = self.head.forward(&self.norm.forward(&x)?)?;
        state.logits.slice_set(&logits, 0, 0)?;
        state.token.slice_set(&logits.argmax(D::Minus1)?, 0, 0)?;
        state.positions.slice_set(&(&state.positions + &self.ones)?, 0, 0)?;
        Ok(())
    }

    fn place<'a>(&self, positions: &'a Tensor) -> Result<Place<'a>> {
        let position = positions.flatten_all()?.narrow(0, 0, 1)?;
        let row = |table: &Tensor| table.index_select(&position, 0);
        let Shape { heads, length, .. } = self.shape;
        let mask = row(&self.masks)?.broadcast_as((heads, 1, length))?.contiguous()?;
        Ok(Place { cos: row(&self.cos)?, sin: row(&self.sin)?, mask, positions })
    }
}

impl State {
    /// Begins a new text. The cache keeps its contents, because the mask hides what the text has not written yet.
    pub(crate) fn begin(&self, token: u32) -> Result<()> {
        self.positions.zero_set()?;
        self.token.slice_set(&Tensor::new(&[token], self.token.device())?, 0, 0)?;
        Ok(())
    }
}

impl Layer {
    fn load(weights: VarBuilder, config: &Config) -> Result<Self> {
        let (width, hidden) = (config.dim, config.hidden_dim);
        let (attention, feed) = (weights.pp("self_attn"), weights.pp("mlp"));
        Ok(Self {
            attention_norm: rms_norm(width, config.norm_eps, weights.pp("input_layernorm"))?,
            query: linear_no_bias(width, width, attention.pp("q_proj"))?,
            key: linear_no_bias(width, width, attention.pp("k_proj"))?,
            value: linear_no_bias(width, width, attention.pp("v_proj"))?,
            output: linear_no_bias(width, width, attention.pp("o_proj"))?,
            feed_norm: rms_norm(width, config.norm_eps, weights.pp("post_attention_layernorm"))?,
            gate: linear_no_bias(width, hidden, feed.pp("gate_proj"))?,
            up: linear_no_bias(width, hidden, feed.pp("up_proj"))?,
            down: linear_no_bias(hidden, width, feed.pp("down_proj"))?,
        })
    }

    /// Attends to all positions of the cache. The mask hides those that are not written yet.
    fn attention(&self, x: &Tensor, shape: Shape, place: &Place, (keys, values): &(Tensor, Tensor)) -> Result<Tensor> {
        let Shape { heads, head_size, .. } = shape;
        let turned = |x: Tensor| rotary_emb::rope_i(&x.reshape((1, heads, 1, head_size))?, &place.cos, &place.sin);
        let query = turned(self.query.forward(x)?)?.reshape(shape.of_one())?;
        let key = turned(self.key.forward(x)?)?.reshape(shape.of_one())?;
        let value = self.value.forward(x)?.reshape(shape.of_one())?;
        keys.scatter_set(place.positions, &key, 1)?;
        values.scatter_set(place.positions, &value, 1)?;
        let scores = (query.matmul(&keys.t()?)? / (head_size as f64).sqrt())?;
        let weights = ops::softmax_last_dim(&(scores + &place.mask)?)?;
        Ok(self.output.forward(&weights.matmul(values)?.reshape((1, heads * head_size))?)?)
    }

    fn feed(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = (self.gate.forward(x)?.silu()? * self.up.forward(x)?)?;
        Ok(self.down.forward(&hidden)?)
    }
}

impl Shape {
    /// Keys or values of one position.
    fn of_one(self) -> (usize, usize, usize) {
        (self.heads, 1, self.head_size)
    }

    /// Keys or values of all positions.
    fn of_all(self) -> (usize, usize, usize) {
        (self.heads, self.length, self.head_size)
    }
}

/// The angles by which a position turns its queries and keys, as llama2.c has them: one row for each position.
fn angles(shape: Shape, device: &Device) -> Result<Tensor> {
    let turn = |index: usize| 10_000f32.powf(-(index as f32) / shape.head_size as f32);
    let row = |position: usize| (0..shape.head_size).step_by(2).map(move |index| position as f32 * turn(index));
    let rows: Vec<f32> = (0..shape.length).flat_map(row).collect();
    Ok(Tensor::from_vec(rows, (shape.length, shape.head_size / 2), device)?)
}

/// What is added to the scores: row `p` is 0 up to position `p`, and minus infinity behind it.
fn masks(shape: Shape, device: &Device) -> Result<Tensor> {
    let value = |row: usize, column: usize| if column > row { f32::NEG_INFINITY } else { 0.0 };
    let rows = (0..shape.length).flat_map(|row| (0..shape.length).map(move |column| value(row, column)));
    Ok(Tensor::from_vec(rows.collect::<Vec<f32>>(), (shape.length, shape.length), device)?)
}

#[cfg(test)]
mod tests {
    use candle_core::IndexOp;
    use candle_nn::VarMap;
    use candle_transformers::models::llama2_c::Llama;

    use super::*;
    use crate::llama::cache;

    #[test]
    fn its_logits_are_those_of_llama2_c() -> Result<()> {
        let config = Config { vocab_size: 100, seq_len: 16, ..Config::tiny_15m() };
        let (device, weights) = (Device::Cpu, VarMap::new());
        let builder = || VarBuilder::from_varmap(&weights, DType::F32, &device);
        let (llama, decoder) = (Llama::load(builder(), config.clone())?, Decoder::load(builder(), &config)?);
        let (mut cache, state) = (cache(true, &config, &device)?, decoder.state(&config, &device)?);
        // The second text finds the cache of the first one.
        for (text, first) in [3, 7].into_iter().enumerate() {
            state.begin(first)?;
            cache.kvs.fill(None);
            for position in 0..config.seq_len {
                let input = state.token.copy()?.reshape((1, 1))?;
                let expected = llama.forward(&input, position, &mut cache)?.i((0, 0))?.to_vec1::<f32>()?;
                decoder.step(&state)?;
                let logits = state.logits.i(0)?.to_vec1::<f32>()?;
                let near = expected.iter().zip(&logits).all(|(one, other)| (one - other).abs() < 1e-4);
                assert!(near, "text {text}, position {position}");
            }
        }
        Ok(())
    }
}
