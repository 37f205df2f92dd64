//! Programs that are neither trainings nor servers.
//!
//! | file | the programs |
//! |---|---|
//! | `solvers` | iterate until a result is exact enough |
//! | `simulations` | move forward in time |
//! | `images` | filter or draw images |
//! | `threads` | have two threads |

mod images;
mod simulations;
mod solvers;
mod threads;

use crate::program::Program;

/// The bytes of a number of a solver or a simulation (`f64`).
const DOUBLE: u64 = 8;

pub(crate) const PROGRAMS: &[Program] = &[
    Program { name: "conjugate_gradient", run: solvers::conjugate_gradient },
    Program { name: "multigrid", run: solvers::multigrid },
    Program { name: "k_means", run: solvers::k_means },
    Program { name: "adaptive_mesh", run: simulations::adaptive_mesh },
    Program { name: "particles", run: simulations::particles },
    Program { name: "filters", run: images::filters },
    Program { name: "splatting", run: images::splatting },
    Program { name: "two_threads", run: threads::two_threads },
];
