//! The handwritten digits as plain host data. They are read, split into training and test images, and shifted.
//!
//! A set is two row-major tables: images, with 64 pixels from 0 to 1 in a row, and targets, with 10 numbers in a row (one-hot). So a
//! batch only gathers rows.

use crate::common::Result;

/// Height and width of an image.
const SIDE: usize = 8;
/// Numbers in an image.
pub(crate) const PIXELS: usize = SIDE * SIDE;
/// Number of different digits.
pub(crate) const CLASSES: usize = 10;
/// One of this many images is used for tests, and not for training.
const HELD_BACK: usize = 5;
/// How far right and down the copies of an image are moved; the first is the image itself.
const SHIFTS: [(isize, isize); 5] = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)];

/// `data/README.md` says where they come from.
const DIGITS: &str = include_str!("../data/digits.csv");

/// Images and their labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// `len × PIXELS`, row-major.
    pub(crate) images: Vec<f32>,
    /// The digit on each image.
    pub(crate) labels: Vec<usize>,
}

/// The two parts of the data.
#[derive(Debug)]
pub(crate) struct Digits {
    pub(crate) train: Samples,
    pub(crate) test: Samples,
}

impl Digits {
    /// Reads the embedded file, and keeps a random fifth of it for tests.
    pub(crate) fn load(random: &mut fastrand::Rng) -> Result<Self> {
        let mut lines: Vec<(usize, &str)> = DIGITS.lines().enumerate().collect();
        random.shuffle(&mut lines);

        let (held_back, rest) = lines.split_at(lines.len() / HELD_BACK);
        Ok(Self { train: Samples::parse(rest)?, test: Samples::parse(held_back)? })
    }
}

impl Samples {
    fn parse(lines: &[(usize, &str)]) -> Result<Self> {
        let mut samples = Self::default();
        for (index, line) in lines {
            samples.push_line(line).ok_or_else(|| format!("line {} of the digits is damaged", index + 1))?;
        }
        Ok(samples)
    }

    /// Takes `64 pixels from 0 to 16, digit`, separated by commas.
    fn push_line(&mut self, line: &str) -> Option<()> {
        let numbers: Vec<u8> = line.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
        let (&label, pixels) = numbers.split_last()?;
        if pixels.len() != PIXELS || usize::from(label) >= CLASSES {
            return None;
        }
        self.images.extend(pixels.iter().map(|&pixel| f32::from(pixel) / 16.0));
        self.labels.push(label.into());
        Some(())
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The one-hot table of the labels, `len × CLASSES`.
    pub(crate) fn targets(&self) -> Vec<f32> {
        let one_hot = |label: &usize| -> [f32; CLASSES] { std::array::from_fn(|class| f32::from(class == *label)) };
        self.labels.iter().flat_map(one_hot).collect()
    }

    /// These images, and then all of them moved by one pixel in each direction. Sample `i` is at `i + k * len` for `k` in `0..copies`,
    /// where `copies` is [`Samples::COPIES`].
    pub(crate) fn with_shifted_copies(&self) -> Self {
        let images = SHIFTS.iter().flat_map(|&shift| self.images.chunks_exact(PIXELS).map(move |image| (image, shift)));
        let images = images.flat_map(|(image, shift)| shifted(image, shift)).collect();
        Self { images, labels: self.labels.repeat(Self::COPIES) }
    }

    /// How many copies of each image [`Samples::with_shifted_copies`] has.
    pub(crate) const COPIES: usize = SHIFTS.len();
}

/// The image moved right and down. Pixels from outside are blank.
fn shifted(image: &[f32], (right, down): (isize, isize)) -> [f32; PIXELS] {
    std::array::from_fn(|pixel| {
        let x = (pixel % SIDE).checked_add_signed(-right).filter(|&x| x < SIDE);
        let y = (pixel / SIDE).checked_add_signed(-down).filter(|&y| y < SIDE);
        x.zip(y).map_or(0.0, |(x, y)| image[y * SIDE + x])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> Digits {
        Digits::load(&mut fastrand::Rng::with_seed(1)).unwrap()
    }

    #[test]
    fn the_file_holds_every_digit() {
        let digits = load();
        assert_eq!((digits.train.len(), digits.test.len()), (1438, 359));
        for part in [&digits.train, &digits.test] {
            assert_eq!(part.images.len(), part.len() * PIXELS);
            assert!(part.images.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
            assert!((0..CLASSES).all(|digit| part.labels.contains(&digit)));
        }
    }

    #[test]
    fn damaged_lines_are_refused() {
        for damaged in ["", "1,2,3", &"1,".repeat(64), &format!("{}10", "1,".repeat(64))] {
            assert!(Samples::parse(&[(0, damaged)]).is_err(), "{damaged:?} was taken");
        }
    }

    #[test]
    fn a_shift_moves_the_image_and_leaves_a_blank_edge() {
        let image: Vec<f32> = (1..=PIXELS as u16).map(f32::from).collect();
        let right = shifted(&image, (1, 0));
        assert_eq!((right[0], right[1], right[7], right[8]), (0.0, 1.0, 7.0, 0.0));
        let up = shifted(&image, (0, -1));
        assert_eq!((up[0], up[55], up[56]), (9.0, 64.0, 0.0));
    }

    #[test]
    fn copies_keep_their_labels() {
        let train = load().train;
        let copies = train.with_shifted_copies();
        assert_eq!(copies.len(), Samples::COPIES * train.len());
        assert_eq!(copies.images[..train.images.len()], train.images);
        assert_eq!(copies.labels[3 * train.len() + 5], train.labels[5]);
        let targets = copies.targets();
        assert_eq!(targets[5 * CLASSES + train.labels[5]], 1.0);
        assert_eq!(targets.iter().sum::<f32>(), copies.len() as f32);
    }
}
