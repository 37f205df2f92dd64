//! The numbers of AdamW in each step of a training.

use crate::gpt::compute::AdamW;

/// Learning rate times the width: wide networks need smaller steps.
const RATE_TIMES_WIDTH: f32 = 0.2;
/// The learning rate rises to its full value in this many steps.
const WARM_UP: i32 = 10;
const WEIGHT_DECAY: f32 = 0.1;
const MEAN_DECAY: f32 = 0.9;
const SQUARE_DECAY: f32 = 0.95;

/// The numbers of step `step`, counted from 1, of a network of this width.
pub(crate) fn adamw(step: i32, width: usize) -> AdamW {
    let rate = RATE_TIMES_WIDTH / width as f32 * (step.min(WARM_UP) as f32 / WARM_UP as f32);
    let correction = (1.0 - SQUARE_DECAY.powi(step)).sqrt() / (1.0 - MEAN_DECAY.powi(step));
    AdamW {
        rate: rate * correction,
        decay: rate * WEIGHT_DECAY,
        mean_decay: MEAN_DECAY,
        square_decay: SQUARE_DECAY,
        epsilon: 1e-8,
    }
}
