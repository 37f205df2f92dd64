//! `decode`: llama2.c writes text greedily. Keys and values outlive the token that made them, and grow with each token.

use std::time::Duration;

use anyhow::Result;
use candle_core::{D, Device, IndexOp, Tensor};
use candle_nn::VarMap;
use candle_transformers::models::llama2_c::{Cache, Llama};
use client_common::{Bits, Common, Run, Session, median, print, timed};
use serde::Serialize;

use crate::gpu;
use crate::llama::{Size, cache};

#[derive(clap::Args, Clone, Copy, Serialize)]
pub(crate) struct Decode {
    #[command(flatten)]
    #[serde(skip)]
    common: Common,
    #[arg(long, value_enum, default_value = "15m")]
    model: Size,
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// Makes the weights variables: candle then keeps the graph of all tokens so far with the cache.
    #[arg(long)]
    graph: bool,
    /// How many texts are written.
    #[arg(long, default_value_t = 8)]
    rounds: usize,
}

#[derive(Serialize)]
struct Report {
    client: &'static str,
    #[serde(flatten)]
    arguments: Decode,
    #[serde(flatten)]
    run: Run,
    /// Median of all texts except the first.
    tokens_per_second: f64,
    /// Hash of every token's logits, in all texts.
    bits: Bits,
    last_tokens: Vec<u32>,
}

/// A text that is being written.
struct Writer<'a> {
    session: &'a Session,
    device: &'a Device,
    model: &'a Llama,
    cache: Cache,
    text: Vec<u32>,
}

impl Decode {
    pub(crate) fn run(self) -> Result<()> {
        let mut session = Session::new(self.common, &["token"])?;
        let device = gpu::device(self.common)?;
        let config = self.model.config();
        let weights = VarMap::new();
        let mut model = Llama::load(gpu::weights(&weights, &device), config.clone())?;
        if !self.graph {
            model = Llama::load(gpu::fixed(&weights, &device), config.clone())?;
        }
        let (mut bits, mut rounds, mut last_tokens) = (Bits::default(), Vec::new(), Vec::new());
        session.steps(self.rounds, |session| {
            let cache = cache(true, &config, &device)?;
            let mut writer = Writer { session, device: &device, model: &model, cache, text: vec![1] };
            rounds.push(writer.write(self.tokens, &mut bits)?);
            last_tokens = writer.text.split_off(writer.text.len().saturating_sub(8));
            Ok(())
        })?;
        let run = session.finish(&*gpu::context(&device)?)?;
        let tokens_per_second = self.tokens as f64 / median(&rounds[1.min(rounds.len())..]);
        print(&Report { client: "decode", arguments: self, run, tokens_per_second, bits, last_tokens })
    }
}

impl Writer<'_> {
    /// Writes this many tokens and returns the seconds. Reading logits for `bits` does not count.
    fn write(&mut self, tokens: usize, bits: &mut Bits) -> Result<f64> {
        let mut time = Duration::ZERO;
        for position in 0..tokens {
            let ((token, logits), seconds) = timed(|| self.next(position))?;
            time += seconds;
            bits.add(&logits.to_vec1::<f32>()?);
            self.text.push(token);
        }
        Ok(time.as_secs_f64())
    }

    /// The next token and the logits that chose it. Reading the token waits for it.
    fn next(&mut self, position: usize) -> Result<(u32, Tensor)> {
        self.session.scope("token", || {
            let input = Tensor::new(&[[self.text[position]]], self.device)?;
            let logits = self.model.forward(&input, position, &mut self.cache)?.i((0, 0))?;
            Ok((logits.argmax(D::Minus1)?.to_scalar()?, logits))
        })
    }
}
