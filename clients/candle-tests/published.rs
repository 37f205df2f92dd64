//! The published tests as one program of libtest's, with all its arguments. Run it in a folder that has the files of
//! candle-core's `tests` in its `tests`.

#![allow(warnings, reason = "the sources are not ours")]

// The name under which candle-nn's tests know candle-core.
extern crate candle_core as candle;
#[macro_use]
extern crate scoped_test;

// Tests of quantized types reach these by `crate`, being crates of their own where they come from.
use candle_core::quantized::{self, k_quants};
use candle_tests::rounds;

include!(concat!(env!("OUT_DIR"), "/modules.rs"));
