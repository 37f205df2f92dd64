//! The published tests as one libtest program with all its arguments. The `tests` folder of its working folder must contain the
//! files of candle-core's `tests`.

#![allow(warnings, reason = "the sources are not ours")]

// candle-nn's tests use candle-core under this name.
extern crate candle_core as candle;
#[macro_use]
extern crate scoped_test;

// Tests of quantized types are crates of their own where they come from, and reach these names by `crate`.
use candle_core::quantized::{self, k_quants};
use candle_tests::rounds;

include!(concat!(env!("OUT_DIR"), "/modules.rs"));
