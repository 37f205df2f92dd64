//! The part of a step that every step repeats.

use super::{Id, Saved, Trace};

const FLOAT: usize = 4;
/// Channels of the pyramid.
const CHANNELS: usize = 256;
/// The blocks of the four layers of a ResNet-50. The first layer and what comes before it do not learn.
const BLOCKS: [usize; 4] = [3, 4, 6, 3];
/// Anchors at each place of the pyramid.
const ANCHORS: usize = 3;

/// The output of a convolution: channels, and by how much it is smaller than the image.
#[derive(Clone, Copy)]
struct Shape(usize, usize);

impl Trace {
    /// Height and width at a scale.
    fn area(&self, scale: usize) -> usize {
        self.image.0.div_ceil(scale) * self.image.1.div_ceil(scale)
    }

    fn bytes(&self, Shape(channels, scale): Shape) -> usize {
        self.images * channels * self.area(scale) * FLOAT
    }

    /// The number of anchors of an image at each level of the pyramid.
    pub(super) fn anchors(&self) -> [usize; 5] {
        [4, 8, 16, 32, 64].map(|scale| ANCHORS * self.area(scale))
    }

    /// The images as a batch, and the levels of the pyramid.
    pub(super) fn backbone(&mut self) -> Vec<Id> {
        let batch = self.transform();
        let mut input = self.stem(batch);
        let mut levels = Vec::new();
        let (mut channels, mut scale) = (64, 4);
        for (layer, blocks) in BLOCKS.into_iter().enumerate() {
            let width = 64 << layer;
            for block in 0..blocks {
                if block == 0 && layer > 0 {
                    scale *= 2;
                }
                input = self.bottleneck(input, (channels, width, scale), block == 0, layer > 0);
                channels = 4 * width;
            }
            levels.push((input, channels, scale));
        }
        self.pyramid(&levels)
    }

    /// Subtracts the mean, divides and resizes each image, and makes a batch of them.
    fn transform(&mut self) -> Id {
        let image = 3 * self.area(1) * FLOAT;
        let images: Vec<Id> = (0..self.images)
            .map(|_| {
                let constants = [self.allocate(12), self.allocate(12)];
                let resized = self.chain(&[image, image, image]);
                self.free_all(constants);
                resized
            })
            .collect();
        let batch = self.allocate(image * self.images);
        self.free_all(images);
        batch
    }

    fn stem(&mut self, batch: Id) -> Id {
        let half = Shape(64, 2);
        let convolved = self.convolve(batch, half, 7 * 7 * 3, false);
        let pooled = self.allocate(self.bytes(Shape(64, 4)));
        self.brief(2 * self.bytes(Shape(64, 4)));
        self.free_all([convolved, batch]);
        pooled
    }

    /// A convolution whose normalization is frozen: its factors are computed anew each time. Saves the input if it learns.
    fn convolve(&mut self, input: Id, shape: Shape, kernel: usize, learns: bool) -> Id {
        let bytes = self.bytes(shape);
        // Some shapes need memory for the computation.
        let workspace = if kernel.is_multiple_of(9) { bytes / 2 + 4096 } else { 0 };
        let convolved = self.allocate(bytes);
        self.brief(workspace);
        let factors: Vec<Id> = (0..5).map(|_| self.allocate(shape.0 * FLOAT)).collect();
        let scaled = self.allocate(bytes);
        self.free(convolved);
        let output = self.allocate(bytes);
        self.free(scaled);
        self.free_all(factors[..3].iter().copied());
        if learns {
            let gradients = vec![bytes, bytes, self.sizes[input]];
            let arrays = vec![factors[3], factors[4], input];
            self.saved.push(Saved { arrays, gradients, weight: shape.0 * kernel * FLOAT, workspace });
        } else {
            self.free_all(factors[3..].iter().copied());
        }
        output
    }

    fn bottleneck(
        &mut self,
        input: Id,
        (channels, width, scale): (usize, usize, usize),
        is_first: bool,
        learns: bool,
    ) -> Id {
        let first = self.convolve(input, Shape(width, scale), channels, learns);
        let second = self.convolve(first, Shape(width, scale), 9 * width, learns);
        let third = self.convolve(second, Shape(4 * width, scale), width, learns);
        let side = if is_first { self.convolve(input, Shape(4 * width, scale), channels, learns) } else { input };
        // The sum is in place.
        if !learns {
            self.free_all([first, second, input, side]);
        } else if is_first {
            self.free(side);
        }
        third
    }

    fn pyramid(&mut self, levels: &[(Id, usize, usize)]) -> Vec<Id> {
        let mut outputs = Vec::new();
        for &(input, channels, scale) in levels.iter().rev() {
            let bytes = self.bytes(Shape(CHANNELS, scale));
            let inner = self.allocate(bytes);
            self.saved.push(Saved {
                arrays: vec![input],
                gradients: vec![self.sizes[input]],
                weight: channels * CHANNELS * FLOAT,
                workspace: 0,
            });
            // The level above is added, in this level's size.
            let sum = match outputs.is_empty() {
                false => {
                    let (wide, sum) = (self.allocate(bytes), self.allocate(bytes));
                    self.free_all([wide, inner]);
                    sum
                }
                true => inner,
            };
            outputs.push(self.allocate(bytes));
            let weight = 9 * CHANNELS * CHANNELS * FLOAT;
            self.saved.push(Saved { arrays: vec![sum], gradients: vec![bytes], weight, workspace: bytes / 4 });
        }
        outputs.reverse();
        outputs.push(self.allocate(self.bytes(Shape(CHANNELS, 64))));
        outputs
    }

    /// Scores and boxes of all anchors.
    pub(super) fn proposal_head(&mut self, pyramid: &[Id]) -> Vec<Id> {
        let levels: Vec<(usize, usize)> = pyramid.iter().map(|id| self.sizes[*id]).zip(self.anchors()).collect();
        let mut parts = Vec::new();
        for (bytes, anchors) in levels {
            let hidden = self.allocate(bytes);
            let (scores, boxes) = (anchors * self.images * FLOAT, 4 * anchors * self.images * FLOAT);
            let raw = [self.allocate(scores), self.allocate(boxes)];
            parts.extend([self.allocate(scores), self.allocate(boxes)]);
            self.free_all(raw);
            let weight = 9 * CHANNELS * CHANNELS * FLOAT;
            self.saved.push(Saved {
                arrays: vec![hidden],
                gradients: vec![scores, boxes, bytes],
                weight,
                workspace: bytes / 4,
            });
        }
        let all = self.anchors().iter().sum::<usize>() * self.images;
        let outputs = vec![self.allocate(all * FLOAT), self.allocate(4 * all * FLOAT)];
        self.free_all(parts);
        // Positions of the anchors, and the boxes that the network predicts.
        let decoded = self.chain(&[16 * all, 4 * all, 4 * all, 4 * all, 8 * all, 16 * all]);
        outputs.into_iter().chain([decoded]).collect()
    }
}
