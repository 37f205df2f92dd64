//! llama2.c of candle-transformers: sizes, weights, and the cache that its forward pass needs.

use std::collections::HashMap;

use anyhow::Result;
use candle_core::{DType, Device};
use candle_nn::VarBuilder;
use candle_transformers::models::llama2_c::{Cache, Config};
use serde::Serialize;

#[derive(Clone, Copy, Debug, clap::ValueEnum, Serialize)]
pub(crate) enum Size {
    /// 6 layers of width 288.
    #[value(name = "15m")]
    #[serde(rename = "15m")]
    Tiny15M,
    /// 12 layers of width 768.
    #[value(name = "110m")]
    #[serde(rename = "110m")]
    Tiny110M,
}

impl Size {
    pub(crate) fn config(self) -> Config {
        match self {
            Size::Tiny15M => Config::tiny_15m(),
            Size::Tiny110M => Config::tiny_110m(),
        }
    }
}

/// The cache over a builder without tensors: it then computes its rotations. A builder over a `VarMap` would create zeros for them.
pub(crate) fn cache(with_keys: bool, config: &Config, device: &Device) -> Result<Cache> {
    let nothing = VarBuilder::from_tensors(HashMap::new(), DType::F32, device);
    Ok(Cache::new(with_keys, config, nothing)?)
}
