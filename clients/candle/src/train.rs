//! `train`: AdamW steps on random tokens. Parameters, moments and the model's mask are allocated outside scopes or stay alive. Each step
//! allocates and drops everything else.

use anyhow::Result;
use candle_core::{Device, Tensor, Var};
use candle_nn::{AdamW, Optimizer, VarMap, loss::cross_entropy};
use candle_transformers::models::llama2_c::{Cache, Llama};
use client_common::{Common, Run, Session, print};
use serde::Serialize;

use crate::gpu;
use crate::llama::{Size, cache};

const ONE_SCOPE: &[&str] = &["train_step"];
const TWO_SCOPES: &[&str] = &["forward", "backward"];

#[derive(clap::Args, Clone, Copy, Serialize)]
pub(crate) struct Train {
    #[command(flatten)]
    #[serde(skip)]
    common: Common,
    #[arg(long, value_enum, default_value = "15m")]
    model: Size,
    #[arg(long, default_value_t = 200)]
    steps: usize,
    #[arg(long, default_value_t = 8)]
    batch: usize,
    /// Tokens in a sequence.
    #[arg(long, default_value_t = 256)]
    length: usize,
    /// Uses one scope for the forward pass and one for backward pass and optimizer, instead of one for all.
    #[arg(long)]
    split: bool,
}

#[derive(Serialize)]
struct Report {
    client: &'static str,
    #[serde(flatten)]
    arguments: Train,
    #[serde(flatten)]
    run: Run,
    parameters: usize,
    last_loss: f32,
    /// The bits of each step's loss.
    losses: Vec<String>,
}

struct Trainer {
    device: Device,
    model: Llama,
    cache: Cache,
    optimizer: AdamW,
}

impl Train {
    pub(crate) fn run(self) -> Result<()> {
        let mut session = Session::new(self.common, if self.split { TWO_SCOPES } else { ONE_SCOPE })?;
        let device = gpu::device(self.common)?;
        let config = self.model.config();
        let weights = VarMap::new();
        let mut trainer = Trainer {
            model: Llama::load(gpu::weights(&weights, &device), config.clone())?,
            cache: cache(false, &config, &device)?,
            optimizer: AdamW::new_lr(in_order(&weights), 3e-4)?,
            device: device.clone(),
        };
        let mut losses = Vec::new();
        session.steps(self.steps, |session| {
            let tokens = session.tokens(self.batch * (self.length + 1), config.vocab_size);
            let loss = self.step(session, &mut trainer, tokens)?;
            losses.push(loss.to_scalar::<f32>()?); // waits for the step
            Ok(())
        })?;
        print(&Report {
            client: "train",
            arguments: self,
            run: session.finish(&*gpu::context(&device)?)?,
            parameters: weights.all_vars().iter().map(|var| var.elem_count()).sum(),
            last_loss: losses.last().copied().unwrap_or_default(),
            losses: losses.iter().map(|loss| format!("{:08x}", loss.to_bits())).collect(),
        })
    }

    fn step(&self, session: &Session, trainer: &mut Trainer, tokens: Vec<u32>) -> Result<Tensor> {
        if self.split {
            // Activations are alive when the first scope is left. They are dropped after the second scope.
            let loss = session.scope("forward", || self.forward(trainer, tokens))?;
            session.scope("backward", || trainer.optimizer.backward_step(&loss))?;
            Ok(loss)
        } else {
            session.scope("train_step", || {
                let loss = self.forward(trainer, tokens)?;
                trainer.optimizer.backward_step(&loss)?;
                Ok(loss.detach()) // the loss leaves its scope without the graph that it was computed from
            })
        }
    }

    fn forward(&self, trainer: &mut Trainer, tokens: Vec<u32>) -> Result<Tensor> {
        let tokens = Tensor::from_vec(tokens, (self.batch, self.length + 1), &trainer.device)?;
        let inputs = tokens.narrow(1, 0, self.length)?.contiguous()?;
        let targets = tokens.narrow(1, 1, self.length)?.contiguous()?;
        let logits = trainer.model.forward(&inputs, 0, &mut trainer.cache)?;
        Ok(cross_entropy(&logits.flatten_to(1)?, &targets.flatten_to(1)?)?)
    }
}

/// Variables sorted by name. The map's own order differs in each process, and with it the order of allocations would.
fn in_order(weights: &VarMap) -> Vec<Var> {
    let data = weights.data().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut named: Vec<_> = data.iter().collect();
    named.sort_by_key(|(name, _)| name.as_str());
    named.into_iter().map(|(_, var)| var.clone()).collect()
}
