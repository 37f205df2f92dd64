//! Servers, whose weights are allocated before the first request.
//!
//! | file | the programs |
//! |---|---|
//! | `answers` | write answers, with a cache of keys and values that grows |
//! | `together` | write several answers at once |
//! | `requests` | compute one result for each request |

mod answers;
mod requests;
mod together;

use crate::program::Program;

pub(crate) const PROGRAMS: &[Program] = &[
    Program { name: "answers", run: answers::answers },
    Program { name: "answers_by_token", run: answers::by_token },
    Program { name: "translation", run: answers::translation },
    Program { name: "speculative", run: answers::speculative },
    Program { name: "paged_cache", run: together::paged_cache },
    Program { name: "continuous_batching", run: together::continuous_batching },
    Program { name: "beam_search", run: together::beam_search },
    Program { name: "diffusion", run: requests::diffusion },
    Program { name: "diffusion_by_iteration", run: requests::diffusion_by_iteration },
    Program { name: "batch_server", run: requests::batch_server },
    Program { name: "embeddings", run: requests::embeddings },
];
