//! mistral.rs with random weights, unmodified or inside gpucache's scopes, writes texts greedily. Prints one JSON object.

mod engine;
mod files;
mod model;
mod scopes;

use anyhow::Result;
use candle_core::Device;
use clap::Parser;
use client_common::{Bits, Common, Mode, Run, Session, median, print, timed};
use serde::Serialize;

use crate::engine::Engine;
use crate::files::Files;
use crate::scopes::Scopes;

#[derive(Parser, Serialize)]
#[command(about)]
struct Client {
    #[command(flatten)]
    #[serde(skip)]
    common: Common,
    /// How scopes reach the thread of mistral.rs's engine, in the mode `scope`.
    #[arg(long, value_enum, default_value = "auto")]
    scopes: Scopes,
    /// Uses paged attention, whose cache of keys and values is allocated once.
    #[arg(long)]
    paged: bool,
    /// Tokens of each text.
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// Random tokens before each text.
    #[arg(long, default_value_t = 32)]
    prompt: usize,
    /// How many texts are written, one after the other.
    #[arg(long, default_value_t = 8)]
    rounds: usize,
}

#[derive(Serialize)]
struct Report {
    client: &'static str,
    #[serde(flatten)]
    arguments: Client,
    #[serde(flatten)]
    run: Run,
    /// Median of all texts except the first.
    tokens_per_second: f64,
    /// Hash of every token's logits, in all texts.
    bits: Bits,
}

fn main() -> Result<()> {
    let client = Client::parse();
    let mut session = Session::new(client.common, Scopes::NAMES)?;
    let files = Files::write(client.common.seed)?;
    let device = Device::new_cuda(0)?;
    let engine = Engine::load(&files, &device, client.paged)?;
    let scopes = (client.common.mode() == Mode::Scope).then_some(client.scopes);
    scopes.inspect(|scopes| scopes.begin());

    let (mut bits, mut seconds) = (Bits::default(), Vec::new());
    session.steps(client.rounds, |session| {
        let prompt = session.tokens(client.prompt, model::VOCABULARY);
        let (logits, time) = timed(|| engine.write(prompt, client.tokens, scopes))?;
        seconds.push(time.as_secs_f64());
        logits.iter().for_each(|logits| bits.add(logits));
        Ok(())
    })?;
    let run = session.finish(device.as_cuda_device()?.cuda_stream().context())?;
    let tokens_per_second = client.tokens as f64 / median(&seconds[1.min(seconds.len())..]);
    print(&Report { client: "mistral", arguments: client, run, tokens_per_second, bits })?;
    // Dropped, the engine would free its memory on its own thread, while the process ends.
    std::mem::forget(engine);
    Ok(())
}
