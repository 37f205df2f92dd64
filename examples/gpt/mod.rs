//! A small GPT and its training step, for the programs `oversubscribe` and `parallel`.
//!
//! Read the files in this order: `store.rs`, which keeps all arrays that outlive an operation; `model.rs`, `block.rs` and the parts
//! of a block: `attention.rs`, `mlp.rs`, `norm.rs` and `linear.rs`; `parameter.rs`, the trained arrays, and `step.rs`, what they share
//! in one step. `compute.rs` defines the operations of a machine, and `host.rs` and `cuda.rs` implement them.

mod attention;
#[cfg(feature = "cuda")]
mod blas;
mod block;
pub(crate) mod compute;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub(crate) mod host;
#[cfg(feature = "cuda")]
mod kernels;
mod linear;
mod mlp;
pub(crate) mod model;
mod norm;
pub(crate) mod parameter;
mod product;
mod rows;
pub(crate) mod schedule;
pub(crate) mod shapes;
pub(crate) mod sizes;
mod slots;
pub(crate) mod step;
pub(crate) mod store;
pub(crate) mod text;
