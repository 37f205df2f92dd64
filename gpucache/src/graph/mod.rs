//! Captured scopes: a graph repeats the work that a block puts on the device, without the host code of the block.
//!
//! A [`CapturedScope`] runs a block of work on one device. It runs the block directly while its scope learns a plan. Once the plan serves all
//! allocations of the block, the block is captured into a graph. From then on a run launches the graph: one call instead of one for
//! each kernel.
//!
//! ```
//! use gpucache::{graph::CapturedScope, prelude::*};
//!
//! let host = Host::new_stream()?; // or `Cuda::with_stream(context.new_stream()?)?`
//! let weights = Array::full(&host, 8, 2.0f32)?;
//! let mut step = CapturedScope::new(&host, "step");
//! for number in 0..10 {
//!     let input = Array::full(&host, 8, number as f32)?;
//!     let output = step.run("train", (&weights, &input), |(weights, input)| {
//!         let mut output = Array::<f32, _>::zeros(input.device(), 8)?;
//!         input.device().launch_kernel((&mut output, weights, input), |(output, weights, input)| {
//!             output.iter_mut().zip(weights).zip(input).for_each(|((y, w), x)| *y = w * x);
//!         })?;
//!         Ok::<_, gpucache::Error>(output)
//!     })?;
//!     assert_eq!(output.to_vec()?, [2.0 * number as f32; 8]);
//! }
//! assert!(step.stats().launches >= 4, "{}", step.stats());
//! # Ok::<(), gpucache::Error>(())
//! ```
//!
//! The memory of the arrays that the block allocates is that of the scope's plan. So all graphs of a captured scope share it, and between
//! two runs it is idle memory of the scope, which other scopes may take. If this memory has moved or shrunk, the next run captures the
//! block again.

// A run passes these files. `scope` looks up the key (`kept`) and decides. `launch` compares the inputs (`inputs`, `visitor`) with those of
// the graph, replaces addresses that moved (`slots`), and launches it. Without a graph, `run` runs the block directly, or `capture`
// captures it and `check` looks at the addresses in it. If no plan serves the block since captured scopes of this name work on other streams
// too, it gets a scope of its own (`beside`). Results are copied to ordinary arrays (`outputs`). `compare` does both, for
// `compare(true)`.

mod beside;
mod capture;
mod check;
mod compare;
mod inputs;
mod kept;
mod launch;
mod outputs;
mod run;
mod scalar;
mod scope;
mod slots;
mod stats;
mod visitor;

#[cfg(feature = "cuda")]
pub use crate::array::Graph;
pub use inputs::Inputs;
pub use outputs::Outputs;
pub use scalar::Scalar;
pub use scope::CapturedScope;
pub use stats::GraphStats;
pub use visitor::Visitor;
