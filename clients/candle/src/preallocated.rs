//! `preallocated`: a decoder whose steps are all alike writes text greedily: directly, in a scope, or as one CUDA graph for each
//! token.

use std::time::Duration;

use anyhow::{Result, ensure};
use candle_core::Device;
use candle_nn::VarMap;
use client_common::{Bits, Captured, Common, GraphReport, Mode, Run, Session, median, print, timed};
use serde::Serialize;

use crate::decoder::{Decoder, State};
use crate::gpu::{self, Capturable};
use crate::llama::Size;
use crate::nodes::Nodes;

/// The scope around a step.
const SCOPE: &str = "token";
/// The first token of each text.
const BEGIN: u32 = 1;

#[derive(clap::Args, Clone, Copy, Serialize)]
pub(crate) struct Preallocated {
    #[command(flatten)]
    #[serde(skip)]
    common: Common,
    #[arg(long, value_enum, default_value = "15m")]
    model: Size,
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// How many texts are written. All texts are the same. The first one is written without scope and graph, in every mode.
    #[arg(long, default_value_t = 8)]
    rounds: usize,
    /// With `--mode scope`: runs each step as a CUDA graph.
    #[arg(long)]
    captured: bool,
    /// Captures one more step through cudarc, without running it, and reports its nodes.
    #[arg(long)]
    nodes: bool,
    /// Prepares candle for captures, which `--captured` and `--nodes` do too: a stream of its own, no events, a workspace of cuBLAS,
    /// and kernel parameters that stay on the device.
    #[arg(long)]
    capturable: bool,
}

#[derive(Serialize)]
struct Report {
    client: &'static str,
    #[serde(flatten)]
    arguments: Preallocated,
    #[serde(flatten)]
    run: Run,
    /// Median of all texts except the first.
    tokens_per_second: f64,
    /// Hash of the first text: every token and its logits. The program fails if another text has another hash.
    bits: Bits,
    last_tokens: Vec<u32>,
    graphs: Option<GraphReport>,
    nodes: Option<Nodes>,
}

/// One text.
struct Text {
    seconds: f64,
    bits: Bits,
    tokens: Vec<u32>,
}

struct Writer<'a> {
    decoder: &'a Decoder,
    state: &'a State,
    /// Runs every step after the first text.
    captured: Option<Captured>,
}

impl Preallocated {
    pub(crate) fn run(mut self) -> Result<()> {
        self.capturable |= self.captured || self.nodes;
        ensure!(!self.captured || self.common.mode() == Mode::Scope, "--captured needs --mode scope");
        ensure!(self.rounds > 1, "the first text is the reference for the others");
        let mut session = Session::new(self.common, &[SCOPE])?;
        let (device, _kept) = self.device()?;
        let config = self.model.config();
        ensure!(self.tokens <= config.seq_len, "the cache has room for {} tokens", config.seq_len);
        let weights = VarMap::new();
        Decoder::load(gpu::weights(&weights, &device), &config)?;
        let decoder = Decoder::load(gpu::fixed(&weights, &device), &config)?;
        let state = decoder.state(&config, &device)?;
        let captured = self.captured.then(|| Captured::new(&gpu::stream(&device)?, SCOPE)).transpose()?;
        let mut writer = Writer { decoder: &decoder, state: &state, captured };
        let texts = writer.write_all(&mut session, self.rounds, self.tokens)?;
        let nodes = self.nodes.then(|| writer.nodes(&session, &device)).transpose()?;
        let run = session.finish(&*gpu::context(&device)?)?;
        let seconds: Vec<f64> = texts[1..].iter().map(|text| text.seconds).collect();
        let tokens_per_second = self.tokens as f64 / median(&seconds);
        let graphs = writer.captured.as_ref().map(Captured::report);
        let Some(Text { bits, mut tokens, .. }) = texts.into_iter().next() else { unreachable!("there are several") };
        let last_tokens = tokens.split_off(tokens.len().saturating_sub(8));
        let client = "preallocated";
        print(&Report { client, arguments: self, run, tokens_per_second, bits, last_tokens, graphs, nodes })
    }

    fn device(self) -> Result<(Device, Option<Capturable>)> {
        if self.capturable {
            let (device, kept) = gpu::capturable(self.common)?;
            return Ok((device, Some(kept)));
        }
        Ok((gpu::device(self.common)?, None))
    }
}

impl Writer<'_> {
    /// Writes the same text several times, and compares every text with the first one.
    fn write_all(&mut self, session: &mut Session, rounds: usize, tokens: usize) -> Result<Vec<Text>> {
        let mut texts: Vec<Text> = Vec::new();
        session.steps(rounds, |session| {
            let text = self.write(session, tokens, texts.is_empty())?;
            let first = texts.first().unwrap_or(&text);
            ensure!(text.bits == first.bits, "text {} differs from the first one, bit by bit", texts.len() + 1);
            ensure!(text.tokens == first.tokens, "text {} has other tokens than the first one", texts.len() + 1);
            texts.push(text);
            Ok(())
        })?;
        Ok(texts)
    }

    /// Writes one text. Reading logits for its bits does not count in its time.
    fn write(&mut self, session: &Session, count: usize, directly: bool) -> Result<Text> {
        self.state.begin(BEGIN)?;
        let (mut time, mut bits, mut tokens) = (Duration::ZERO, Bits::default(), Vec::with_capacity(count));
        for _ in 0..count {
            let (token, seconds) = timed(|| self.next(session, directly))?;
            time += seconds;
            tokens.push(token);
            bits.add(&self.state.logits.flatten_all()?.to_vec1::<f32>()?);
        }
        Ok(Text { seconds: time.as_secs_f64(), bits, tokens })
    }

    /// Writes and reads the next token, which waits for it.
    fn next(&mut self, session: &Session, directly: bool) -> Result<u32> {
        let Self { decoder, state, captured } = self;
        match captured {
            _ if directly => decoder.step(state)?,
            None => session.scope(SCOPE, || decoder.step(state))?,
            // SAFETY: a step uses tensors of the decoder and its state, which are neither dropped nor replaced while the program
            // runs, the workspace and the parameters that `Capturable` keeps, and memory that the step allocates.
            Some(captured) => unsafe { captured.run(|| decoder.step(state)) }?,
        }
        Ok(state.token.to_vec1::<u32>()?[0])
    }

    fn nodes(&self, session: &Session, device: &Device) -> Result<Nodes> {
        let stream = gpu::stream(device)?;
        session.scope(SCOPE, || Nodes::of(&stream, || self.decoder.step(self.state)))
    }
}
