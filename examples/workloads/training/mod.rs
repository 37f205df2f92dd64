//! Trainings. The weights are allocated before the first step, and the optimizer's state in the first one.
//!
//! | file | the trainings differ in |
//! |---|---|
//! | `shapes` | the sizes of the batches |
//! | `phases` | what comes between the batches: evaluations, the optimizer, copies of the weights |
//! | `structure` | the operations of a step |
//! | `several` | the networks of a step |
//! | `beside` | what happens beside the step: a buffer that grows, a thread that loads batches |

mod beside;
mod phases;
mod several;
mod shapes;
mod structure;

use crate::program::Program;

/// Steps of a training: the rarest events, such as evaluations, come every 20 to 30 steps, and so two to four times.
const STEPS: u64 = 80;

pub(crate) const PROGRAMS: &[Program] = &[
    Program { name: "fixed", run: shapes::fixed },
    Program { name: "random_length", run: shapes::random_length },
    Program { name: "bucketed_length", run: shapes::bucketed_length },
    Program { name: "curriculum_stepwise", run: shapes::curriculum_stepwise },
    Program { name: "curriculum_continuous", run: shapes::curriculum_continuous },
    Program { name: "batch_doubles", run: shapes::batch_doubles },
    Program { name: "last_batch_smaller", run: shapes::last_batch_smaller },
    Program { name: "progressive_resizing", run: shapes::progressive_resizing },
    Program { name: "evaluation_often", run: phases::evaluation_often },
    Program { name: "evaluation_per_epoch", run: phases::evaluation_per_epoch },
    Program { name: "accumulation", run: phases::accumulation },
    Program { name: "accumulation_alike", run: phases::accumulation_alike },
    Program { name: "copies_of_weights", run: phases::copies_of_weights },
    Program { name: "loss_scaling", run: phases::loss_scaling },
    Program { name: "checkpointing", run: structure::checkpointing },
    Program { name: "stochastic_depth", run: structure::stochastic_depth },
    Program { name: "early_exit", run: structure::early_exit },
    Program { name: "experts", run: structure::experts },
    Program { name: "sampled_graph", run: structure::sampled_graph },
    Program { name: "detection", run: structure::detection },
    Program { name: "recurrent", run: structure::recurrent },
    Program { name: "adversarial", run: several::adversarial },
    Program { name: "two_tasks", run: several::two_tasks },
    Program { name: "three_kinds", run: several::three_kinds },
    Program { name: "contrastive", run: several::contrastive },
    Program { name: "replay_buffer", run: beside::replay_buffer },
    Program { name: "loader", run: beside::loader },
    Program { name: "loader_drops", run: beside::loader_drops },
];
