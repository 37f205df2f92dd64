//! The ranks of a training as one of them sees the others: texts and numbers that all ranks exchange, and the failure that ends them all.
//!
//! `hub.rs` is for ranks that are threads of one process; `client.rs` and `server.rs` are for ranks that are processes.

use std::sync::Arc;

/// A result that crosses threads and processes. The text says what happened, on which rank, and what to do.
pub(crate) type Outcome<T> = Result<T, String>;

/// How the numbers of all ranks become one result, which is equal to the bit on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// The mean of each number, summed in the order of the ranks.
    Mean,
    /// All numbers, in the order of the ranks.
    Concatenation,
}

/// One rank's connection to all ranks. All ranks make the same calls in the same order; one thread at a time makes each kind of call.
pub(crate) trait Peers: Send + Sync {
    /// This rank, counted from 0.
    fn rank(&self) -> usize;

    fn ranks(&self) -> usize;

    /// Waits for one text of each rank, and returns them in the order of the ranks.
    fn gather(&self, text: String) -> Outcome<Arc<[String]>>;

    /// Waits for numbers of each rank, and joins them.
    fn join(&self, numbers: Vec<f32>, by: Join) -> Outcome<Arc<[f32]>>;

    /// Why the training ends early, once a rank failed.
    fn failure(&self) -> Option<String>;

    /// Ends all ranks: their calls that wait, and later ones, return `cause`. The first cause stays.
    fn fail(&self, cause: &str);
}

/// Joins the numbers of all ranks.
pub(crate) fn join(parts: &[Vec<f32>], by: Join) -> Outcome<Arc<[f32]>> {
    match by {
        Join::Concatenation => Ok(parts.concat().into()),
        Join::Mean => mean(parts),
    }
}

fn mean(parts: &[Vec<f32>]) -> Outcome<Arc<[f32]>> {
    let Some((first, others)) = parts.split_first() else { return Ok([].into()) };
    let mut sum = first.clone();
    for (rank, part) in (1..).zip(others) {
        if part.len() != sum.len() {
            let (own, other) = (part.len(), sum.len());
            return Err(format!(
                "rank {rank} reduces {own} numbers and rank 0 {other}: start all ranks with the same options"
            ));
        }
        sum.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    let share = 1.0 / parts.len() as f32;
    sum.iter_mut().for_each(|sum| *sum *= share);
    Ok(sum.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_joined_in_the_order_of_the_ranks() {
        let parts = [vec![1.0, 5.0], vec![2.0, 3.0]];
        assert_eq!(*join(&parts, Join::Mean).unwrap(), [1.5, 4.0]);
        assert_eq!(*join(&parts, Join::Concatenation).unwrap(), [1.0, 5.0, 2.0, 3.0]);
        let error = join(&[vec![1.0], vec![]], Join::Mean).unwrap_err();
        assert!(error.contains("rank 1 reduces 0 numbers and rank 0 1"), "{error}");
    }
}
