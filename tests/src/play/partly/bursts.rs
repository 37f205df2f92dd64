//! Irregular allocations of an entry: how many, of which sizes, and how long their arrays live.

use std::fmt;

use fastrand::Rng;

/// How many allocations a burst has, around its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// From none to twice the mean.
    Uniform,
    /// Most bursts are short, and a few are long.
    Geometric,
    /// One of four bursts has four times the mean. The others are empty.
    Seldom,
    /// Within an eighth of the mean.
    Narrow,
    /// The same in all entries, so that only sizes and lives vary.
    Same,
}

/// The sizes of irregular arrays.
#[derive(Clone, Debug)]
pub enum Sizes {
    /// All powers of two between the bounds are equally likely, and all sizes between two of them.
    Range(f64, f64),
    /// A few sizes, which some regular arrays have too.
    Common(Vec<usize>),
    /// Powers of two between these exponents.
    Powers(u32, u32),
    /// Multiples of one of these units. All arrays of a burst have the same factor, at most this one.
    Boxes(Vec<usize>, usize),
}

/// When an irregular array is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Within its burst, the last one first.
    Stack,
    /// Within its burst, in any order.
    Mixed,
    /// A few regular allocations later.
    Soon,
    /// As far from the end of the entry as it was allocated from the beginning. An array of the second half lives until the end.
    Mirrored,
    /// At the end of the entry.
    End,
    /// In the next entry.
    Next,
}

/// The properties of all bursts of a program.
#[derive(Clone, Debug)]
pub struct Bursts {
    /// Their lengths.
    pub length: Length,
    /// Their sizes.
    pub sizes: Sizes,
    /// The lives of their arrays. Each is equally likely.
    pub lives: Vec<Life>,
    /// One of this many arrays lives until the next entry.
    pub escapes: usize,
}

impl Length {
    /// The number of allocations of a burst with this mean.
    pub fn draw(self, rng: &mut Rng, mean: f64) -> usize {
        let number = match self {
            Length::Uniform => 2.0 * mean * rng.f64(),
            Length::Geometric => -mean * (1.0 - rng.f64()).ln(),
            Length::Seldom => 4.0 * mean * f64::from(u8::from(rng.u8(..4) == 0)),
            Length::Narrow => mean * (0.875 + 0.25 * rng.f64()),
            Length::Same => return mean.ceil() as usize,
        };
        // Rounds by chance, so that short bursts keep their mean.
        (number + rng.f64()) as usize
    }
}

impl Sizes {
    /// Random sizes between two bounds. `regular` has the sizes of regular arrays.
    pub fn random(rng: &mut Rng, (least, most): (f64, f64), regular: &[usize]) -> Sizes {
        match rng.u8(..5) {
            0 | 1 => Sizes::Range(least, most),
            2 => Sizes::Common((0..rng.usize(1..=6)).map(|_| regular[rng.usize(..regular.len())]).collect()),
            3 => Sizes::Powers(least.log2() as u32, most.log2() as u32),
            _ => {
                let count = rng.usize(10..=1000);
                let units = (0..rng.usize(1..=5)).map(|_| [4, 8, 16, 80, 364, 1024, 50_176][rng.usize(..7)]);
                Sizes::Boxes(units.collect(), count)
            }
        }
    }

    /// A size. `boxes` from 0 to 1 belongs to its burst.
    fn draw(&self, rng: &mut Rng, boxes: f64) -> usize {
        match self {
            Sizes::Range(least, most) => (least * (most / least).powf(rng.f64())) as usize,
            Sizes::Common(sizes) => sizes[rng.usize(..sizes.len())],
            Sizes::Powers(least, most) => 1 << rng.u32(*least..=*most),
            Sizes::Boxes(units, most) => units[rng.usize(..units.len())] * (1 + (boxes * *most as f64) as usize),
        }
    }
}

impl Bursts {
    /// Random bursts. `bounds` are those of continuous sizes, and `regular` has the sizes of regular arrays.
    pub fn random(rng: &mut Rng, bounds: (f64, f64), regular: &[usize]) -> Bursts {
        let length = [Length::Uniform, Length::Geometric, Length::Seldom, Length::Narrow][rng.usize(..4)];
        let sizes = Sizes::random(rng, bounds, regular);
        let all = [Life::Stack, Life::Mixed, Life::Soon, Life::Mirrored, Life::End];
        let lives = (0..rng.usize(1..=3)).map(|_| all[rng.usize(..all.len())]).collect();
        let escapes = [usize::MAX, usize::MAX, 400, 40][rng.usize(..4)];
        Bursts { length, sizes, lives, escapes }
    }

    /// The sizes and lives of the arrays of a burst with this mean.
    pub fn draw(&self, rng: &mut Rng, mean: f64) -> Vec<(usize, Life)> {
        let boxes = rng.f64();
        let one = |rng: &mut Rng| {
            let escapes = rng.usize(..self.escapes) == 0;
            let life = if escapes { Life::Next } else { self.lives[rng.usize(..self.lives.len())] };
            (self.sizes.draw(rng, boxes), life)
        };
        (0..self.length.draw(rng, mean)).map(|_| one(rng)).collect()
    }
}

impl fmt::Display for Bursts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ", self.length)?;
        match &self.sizes {
            Sizes::Range(least, most) => write!(f, "{least:.0}..{most:.0}")?,
            Sizes::Common(sizes) => write!(f, "{} common", sizes.len())?,
            Sizes::Powers(least, most) => write!(f, "2^{least}..2^{most}")?,
            Sizes::Boxes(units, most) => write!(f, "{most} of {units:?}")?,
        }
        write!(f, " {:?}", self.lives)?;
        if self.escapes < usize::MAX { write!(f, " 1/{} escapes", self.escapes) } else { Ok(()) }
    }
}
