//! `resnet`: ResNet-50 classifies images of one size. Without cuDNN, convolutions need large arrays for a short time.

use anyhow::Result;
use candle_core::{Device, Tensor};
use candle_nn::{Module, VarMap};
use candle_transformers::models::resnet::resnet50;
use client_common::{Bits, Common, Run, Session, print};
use serde::Serialize;

use crate::gpu;

const CLASSES: usize = 1000;
const SIDE: usize = 224;

#[derive(clap::Args, Clone, Copy, Serialize)]
pub(crate) struct Resnet {
    #[command(flatten)]
    #[serde(skip)]
    common: Common,
    #[arg(long, default_value_t = 100)]
    steps: usize,
    #[arg(long, default_value_t = 8)]
    batch: usize,
}

#[derive(Serialize)]
struct Report {
    client: &'static str,
    #[serde(flatten)]
    arguments: Resnet,
    #[serde(flatten)]
    run: Run,
    /// Hash of all scores.
    bits: Bits,
}

impl Resnet {
    pub(crate) fn run(self) -> Result<()> {
        let mut session = Session::new(self.common, &["classify"])?;
        let device = gpu::device(self.common)?;
        let weights = VarMap::new();
        resnet50(CLASSES, gpu::weights(&weights, &device))?;
        let model = resnet50(CLASSES, gpu::fixed(&weights, &device))?;
        let pixels: Vec<f32> = (0..self.batch * 3 * SIDE * SIDE).map(|_| session.inputs.f32()).collect();
        let images = Tensor::from_vec(pixels, (self.batch, 3, SIDE, SIDE), &Device::Cpu)?;
        let mut bits = Bits::default();
        session.steps(self.steps, |session| {
            // The images are in host memory, and each step copies them to the GPU.
            let scores = session.scope("classify", || model.forward(&images.to_device(&device)?))?;
            bits.add(&scores.flatten_all()?.to_vec1()?);
            Ok(())
        })?;
        print(&Report { client: "resnet", arguments: self, run: session.finish(&*gpu::context(&device)?)?, bits })
    }
}
