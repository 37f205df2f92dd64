//! A small model of Llama's shape: its configuration, and its weights by their names.

use std::collections::HashMap;

use anyhow::Result;
use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};

/// Tokens that the model knows.
pub(crate) const VOCABULARY: usize = 512;

/// The longest text, with its prompt.
pub(crate) const LENGTH: usize = 2048;

const WIDTH: usize = 256;
const HIDDEN: usize = 704;
const LAYERS: usize = 6;
/// Of 64 elements each: paged attention has no kernels for smaller ones.
const HEADS: usize = 4;

/// The contents of `config.json`.
pub(crate) fn config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "vocab_size": VOCABULARY,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "max_position_embeddings": LENGTH,
        "tie_word_embeddings": false,
    })
}

/// Random weights on the host.
pub(crate) fn weights(seed: u64) -> Result<HashMap<String, Tensor>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut weights = HashMap::new();
    for (name, shape) in shapes() {
        let weight = match *shape {
            [rows, columns] => matrix(&mut random, rows, columns)?,
            _ => Tensor::ones(shape, DType::F32, &Device::Cpu)?,
        };
        weights.insert(name, weight.to_dtype(DType::BF16)?);
    }
    Ok(weights)
}

/// Names and shapes in a fixed order, so that equal seeds make equal weights.
fn shapes() -> Vec<(String, Vec<usize>)> {
    let mut shapes = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, WIDTH]),
        ("model.norm.weight".to_owned(), vec![WIDTH]),
        ("lm_head.weight".to_owned(), vec![VOCABULARY, WIDTH]),
    ];
    for layer in 0..LAYERS {
        let mut add = |name: &str, shape: &[usize]| {
            shapes.push((format!("model.layers.{layer}.{name}.weight"), shape.to_vec()));
        };
        add("input_layernorm", &[WIDTH]);
        add("post_attention_layernorm", &[WIDTH]);
        for name in ["q_proj", "k_proj", "v_proj", "o_proj"] {
            add(&format!("self_attn.{name}"), &[WIDTH, WIDTH]);
        }
        add("mlp.gate_proj", &[HIDDEN, WIDTH]);
        add("mlp.up_proj", &[HIDDEN, WIDTH]);
        add("mlp.down_proj", &[WIDTH, HIDDEN]);
    }
    shapes
}

/// Values of such a size that a layer's output is about as large as its input.
fn matrix(random: &mut fastrand::Rng, rows: usize, columns: usize) -> Result<Tensor> {
    let most = (3.0 / columns as f32).sqrt();
    let values: Vec<f32> = (0..rows * columns).map(|_| (random.f32() * 2.0 - 1.0) * most).collect();
    Ok(Tensor::from_vec(values, (rows, columns), &Device::Cpu)?)
}
