//! The training text: plays of Shakespeare, one token for each letter.

use std::io::Read;

use flate2::read::GzDecoder;

use crate::common::Result;
use crate::gpt::sizes::Sizes;

/// `data/README.md` names its source.
const PLAYS: &[u8] = include_bytes!("../data/shakespeare.txt.gz");

/// A text as tokens.
#[derive(Debug)]
pub(crate) struct Text {
    tokens: Vec<u32>,
    /// The letter of each token, in order.
    letters: Vec<u8>,
}

/// Sequences drawn from the text, one after the other, and for each of their tokens the one that follows it.
#[derive(Debug, PartialEq)]
pub(crate) struct Batch {
    pub(crate) inputs: Vec<u32>,
    pub(crate) targets: Vec<u32>,
}

impl Text {
    /// Unpacks the embedded file.
    pub(crate) fn load() -> Result<Self> {
        let mut text = Vec::new();
        GzDecoder::new(PLAYS).read_to_end(&mut text)?;
        Ok(Self::of(&text))
    }

    fn of(text: &[u8]) -> Self {
        let mut letters = text.to_vec();
        letters.sort_unstable();
        letters.dedup();
        let token = |letter: &u8| letters.partition_point(|other| other < letter) as u32;
        Self { tokens: text.iter().map(token).collect(), letters }
    }

    /// The number of different tokens.
    pub(crate) fn vocabulary(&self) -> usize {
        self.letters.len()
    }

    /// # Errors
    /// If the text is shorter than a sequence.
    pub(crate) fn batch(&self, sizes: &Sizes, random: &mut fastrand::Rng) -> Result<Batch> {
        let starts = self.tokens.len().saturating_sub(sizes.context);
        if starts == 0 {
            return Err(format!("the text has {} letters, and a sequence {}", self.tokens.len(), sizes.context).into());
        }
        let starts: Vec<usize> = (0..sizes.batch).map(|_| random.usize(..starts)).collect();
        let from = |offset: usize| {
            let sequence = |start: &usize| self.tokens[start + offset..][..sizes.context].iter().copied();
            starts.iter().flat_map(sequence).collect()
        };
        Ok(Batch { inputs: from(0), targets: from(1) })
    }

    pub(crate) fn decode(&self, tokens: &[u32]) -> String {
        let letters = tokens.iter().filter_map(|&token| self.letters.get(token as usize));
        letters.map(|&letter| char::from(letter)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole() {
        let text = Text::load().unwrap();
        assert_eq!((text.tokens.len(), text.vocabulary()), (449_981, 63));
        assert!(text.decode(&text.tokens[..100]).starts_with("First Citizen:\nBefore we proceed"));
    }

    #[test]
    fn targets_follow_their_inputs() {
        let text = Text::of(b"abcdefgh");
        let sizes = Sizes { layers: 1, width: 1, heads: 1, context: 7, batch: 1, vocabulary: 8 };
        let batch = text.batch(&sizes, &mut fastrand::Rng::with_seed(1)).unwrap();
        assert_eq!((text.decode(&batch.inputs), text.decode(&batch.targets)), ("abcdefg".into(), "bcdefgh".into()));
        let sizes = Sizes { context: 8, ..sizes };
        assert!(text.batch(&sizes, &mut fastrand::Rng::with_seed(1)).is_err());
    }
}
