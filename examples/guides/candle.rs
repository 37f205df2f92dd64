//! Trains a small network with candle, whose tensors come from the memory of a scope. Needs a GPU.

use candle_core::{DType, Device, Tensor};
use candle_nn::{AdamW, Module, Optimizer, VarBuilder, VarMap, linear, loss::mse};
use gpucache::{cache_scope, foreign};

fn main() -> anyhow::Result<()> {
    let device = Device::new_cuda(0)?;
    println!("{}", foreign::status()?);

    // Weights and data live as long as the program. So they are made outside of scopes.
    let variables = VarMap::new();
    let weights = VarBuilder::from_varmap(&variables, DType::F32, &device);
    let (first, second) = (linear(64, 512, weights.pp("first"))?, linear(512, 1, weights.pp("second"))?);
    let mut optimizer = AdamW::new_lr(variables.all_vars(), 1e-3)?;
    let x = Tensor::randn(0f32, 1.0, (1024, 64), &device)?;
    let y = x.sum_keepdim(1)?;

    for step in 1..=200 {
        let loss = cache_scope!(train_step, {
            let prediction = second.forward(&first.forward(&x)?.relu()?)?;
            let loss = mse(&prediction, &y)?;
            optimizer.backward_step(&loss)?;
            loss.detach() // without `detach` the loss would keep all activations of its step alive
        });
        if step % 50 == 0 {
            println!("step {step}: loss {:.3}", loss.to_scalar::<f32>()?);
        }
    }
    let stats = gpucache::stats("train_step").unwrap_or_default();
    println!("{stats:#}\n{}", stats.foreign);
    Ok(())
}
