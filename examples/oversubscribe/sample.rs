//! Text that the trained network writes, letter by letter.

use crate::common::Result;
use crate::gpt::compute::Compute;
use crate::gpt::model::{Model, Tokens};
use crate::gpt::step::Step;
use crate::gpt::text::Text;

/// The number is small, because each letter takes a whole forward pass.
const LETTERS: usize = 100;
/// Logits are divided by this number. Below 1, likely letters become more likely.
const TEMPERATURE: f32 = 0.8;

/// The text that the network writes after an empty line. `step` says how many tokens the network can see.
pub(crate) fn sample<C: Compute>(
    step: &Step<'_, C>,
    model: &Model<C::Device>,
    text: &Text,
    random: &mut fastrand::Rng,
) -> Result<String> {
    // The line feed is the first letter of the alphabet.
    let mut tokens = vec![0];
    for _ in 0..LETTERS {
        let seen = &tokens[tokens.len().saturating_sub(step.context)..];
        let last = seen.len() - 1;
        // Causal attention ignores tokens after the last one.
        let mut input = seen.to_vec();
        input.resize(step.context, 0);
        let logits = scores(step, model, &input)?;
        let columns = text.vocabulary();
        tokens.push(drawn(&logits[last * columns..][..columns], random));
    }
    Ok(text.decode(&tokens[1..]))
}

/// The logits after each token of one sequence, computed in their own scope.
fn scores<C: Compute>(step: &Step<'_, C>, model: &Model<C::Device>, input: &[u32]) -> Result<Vec<f32>> {
    gpucache::cache_scope!(sample, {
        let tokens = Tokens::from_slice(step.compute.device(), input.len(), input)?;
        let logits = model.logits(step, &tokens)?;
        let numbers = logits.read()?.to_vec()?;
        Ok(numbers)
    })
}

/// Draws a token with the probabilities of the softmax of the logits.
fn drawn(logits: &[f32], random: &mut fastrand::Rng) -> u32 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f32> = logits.iter().map(|logit| ((logit - largest) / TEMPERATURE).exp()).collect();
    let mut left = random.f32() * weights.iter().sum::<f32>();
    let reached = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    reached.unwrap_or(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_letters_are_drawn_often() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut counts = [0; 3];
        for _ in 0..1000 {
            counts[drawn(&[f32::NEG_INFINITY, 1.0, 1.0 + TEMPERATURE * 3_f32.ln()], &mut random) as usize] += 1;
        }
        assert!(counts[0] == 0 && (200..300).contains(&counts[1]), "{counts:?}");
    }
}
