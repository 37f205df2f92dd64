//! `bert`: BERT base reads batches of sentences. Each batch is padded to a length of its own.

use anyhow::Result;
use candle_core::{DType, Device, IndexOp, Tensor};
use candle_nn::VarMap;
use candle_transformers::models::bert::{BertModel, Config};
use client_common::{Bits, Common, Run, Session, print};
use serde::Serialize;

use crate::gpu;

#[derive(clap::Args, Clone, Copy, Serialize)]
pub(crate) struct Bert {
    #[command(flatten)]
    #[serde(skip)]
    common: Common,
    #[arg(long, default_value_t = 200)]
    steps: usize,
    #[arg(long, default_value_t = 8)]
    batch: usize,
    /// Tokens of the longest sentence; the shortest has 16.
    #[arg(long, default_value_t = 256)]
    longest: usize,
}

#[derive(Serialize)]
struct Report {
    client: &'static str,
    #[serde(flatten)]
    arguments: Bert,
    #[serde(flatten)]
    run: Run,
    /// Hash of the first token's hidden state of every sentence.
    bits: Bits,
}

impl Bert {
    pub(crate) fn run(self) -> Result<()> {
        let mut session = Session::new(self.common, &["read"])?;
        let device = gpu::device(self.common)?;
        let config = Config::default();
        let weights = VarMap::new();
        BertModel::load(gpu::weights(&weights, &device), &config)?;
        let model = BertModel::load(gpu::fixed(&weights, &device), &config)?;
        let mut bits = Bits::default();
        session.steps(self.steps, |session| {
            let length = session.inputs.usize(16..=self.longest);
            let tokens = session.tokens(self.batch * length, config.vocab_size);
            let states = session.scope("read", || self.read(&device, &model, tokens, length))?;
            bits.add(&states.flatten_all()?.to_vec1()?);
            Ok(())
        })?;
        print(&Report { client: "bert", arguments: self, run: session.finish(&*gpu::context(&device)?)?, bits })
    }

    fn read(&self, device: &Device, model: &BertModel, tokens: Vec<u32>, length: usize) -> Result<Tensor> {
        let tokens = Tensor::from_vec(tokens, (self.batch, length), device)?;
        let (segments, mask) = (tokens.zeros_like()?, tokens.ones_like()?.to_dtype(DType::F32)?);
        Ok(model.forward(&tokens, &segments, Some(&mask))?.i((.., 0))?.contiguous()?)
    }
}
