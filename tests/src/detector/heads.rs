//! The part of a step that depends on the boxes in its images.

use super::{Id, Saved, Trace};

/// Boxes of one image that its heads look at.
const SAMPLED: usize = 512;
/// Boxes that remain after suppression, at most.
const PROPOSED: usize = 2000;
/// The bytes of a box, of a number, and of an index.
const BOX: usize = 16;
const FLOAT: usize = 4;
const INDEX: usize = 8;
/// The bytes of the features of a box.
const FEATURES: usize = 256 * 7 * 7 * FLOAT;

impl Trace {
    /// Proposals, targets, the heads of boxes, and losses. Returns the arrays that live until the end of the step.
    pub(super) fn heads(&mut self, pyramid: &[Id], _: &[Id]) -> Vec<Id> {
        let objects: Vec<usize> = (0..self.images).map(|_| self.objects()).collect();
        let proposals: Vec<Id> = (0..self.images).map(|_| self.filter()).collect();
        let mut kept = Vec::new();
        for &objects in &objects {
            let all = self.anchors().iter().sum();
            kept.push(self.matched(objects, all));
            kept.push(self.encoded(all));
        }
        self.proposal_loss(objects.iter().map(|objects| 128.min(4 * objects)).sum());
        let mut sampled = 0;
        for (&objects, proposal) in objects.iter().zip(&proposals) {
            let boxes = self.sizes[*proposal] / BOX + objects;
            let with = self.allocate(boxes * BOX);
            let labels = self.matched(objects, boxes);
            let own = SAMPLED.min(boxes);
            sampled += own;
            kept.push(self.encoded(own));
            self.free_all([with, labels]);
            self.for_each_object(objects);
        }
        self.free_all(proposals);
        self.pooled(pyramid, sampled);
        self.box_head(sampled);
        kept
    }

    /// The number of objects in an image. Most images have few, some have many.
    fn objects(&mut self) -> usize {
        (1.0 - 7.0 * (1.0 - self.rng.f64()).ln()).min(60.0) as usize
    }

    /// The best boxes of an image: of each level the best ones, without small ones and without those that overlap better ones.
    fn filter(&mut self) -> Id {
        let levels = self.anchors().map(|anchors| anchors.min(PROPOSED));
        let best: Vec<Id> = levels
            .iter()
            .map(|best| {
                let values = self.allocate(best * FLOAT);
                let indexes = self.allocate(best * INDEX);
                self.brief(best * 24);
                self.free(values);
                indexes
            })
            .collect();
        let all: usize = levels.iter().sum();
        let order = self.allocate(all * INDEX);
        self.free_all(best);
        let boxes = self.chain(&[all * BOX, all * 8, all * 8, all * 8, all * BOX]);
        self.free(order);
        let mut proposed = 0;
        let mask = self.allocate(all);
        for best in levels {
            // Small boxes are left out. On a level without large ones, nothing is done.
            let left = (best as f64 * (0.6 + 0.4 * self.rng.f64())) as usize;
            let is_empty = best < 1000 && self.rng.u8(..3) == 0;
            if !is_empty {
                self.brief(all);
                proposed += self.suppress(left);
            }
        }
        let kept = self.chain(&[proposed * INDEX, proposed * INDEX]);
        self.free_all([mask, boxes]);
        let proposals = self.allocate(proposed.min(PROPOSED) * BOX);
        self.brief(proposed.min(PROPOSED) * FLOAT);
        self.free(kept);
        proposals
    }

    /// Removes boxes that overlap better ones. Returns how many are left.
    fn suppress(&mut self, boxes: usize) -> usize {
        let indexes = self.allocate(boxes * INDEX);
        let (own, scores) = (self.allocate(boxes * BOX), self.allocate(boxes * FLOAT));
        let sorted = [self.allocate(boxes * FLOAT), self.allocate(boxes * INDEX)];
        self.brief(boxes * 20 + 767);
        let ordered = self.allocate(boxes * BOX);
        let mask = self.allocate(boxes * boxes.div_ceil(64) * INDEX);
        self.free_all(sorted);
        // Blocks of boxes are compared one after the other, until enough are left.
        let rounds = 1 + (boxes as f64 / 200.0 * self.rng.f64()) as usize;
        (0..rounds).for_each(|round| self.brief(64 * INDEX * (round + 1)));
        let left = boxes / 8 + (boxes as f64 * 0.4 * self.rng.f64()) as usize;
        let keep = self.allocate(left * INDEX);
        self.free_all([mask, ordered, scores, own, indexes, keep]);
        left
    }

    /// Which object belongs to which box: labels of all boxes.
    fn matched(&mut self, objects: usize, boxes: usize) -> Id {
        let areas = [self.allocate(objects * FLOAT), self.allocate(boxes * FLOAT)];
        let pairs = objects * boxes * FLOAT;
        let inner = self.chain(&[2 * pairs, 2 * pairs, 2 * pairs, 2 * pairs, pairs]);
        let overlap = self.chain(&[pairs, pairs, pairs]);
        self.free(inner);
        self.free_all(areas);
        let best = [self.allocate(boxes * FLOAT), self.allocate(boxes * INDEX), self.allocate(objects * FLOAT)];
        let low = [self.allocate(boxes), self.allocate(boxes), self.allocate(objects * boxes)];
        let hits = objects + self.rng.usize(..4 * objects + 1);
        self.brief(2 * hits * INDEX);
        self.free_all(low);
        self.free(overlap);
        let labels = self.allocate(boxes * FLOAT);
        self.free_all(best);
        // A random part of the boxes is sampled: positive and negative ones.
        for number in [hits.min(SAMPLED / 4), boxes - hits.min(boxes)] {
            self.brief(boxes);
            let places = self.allocate(number * INDEX);
            let any = self.allocate(number * INDEX);
            self.brief(number * 16);
            self.brief(number.min(SAMPLED) * INDEX);
            self.free_all([places, any]);
        }
        labels
    }

    /// The differences between boxes and their objects.
    fn encoded(&mut self, boxes: usize) -> Id {
        let columns: Vec<Id> = (0..8).map(|_| self.allocate(boxes * FLOAT)).collect();
        let mut differences = Vec::new();
        for _ in 0..4 {
            differences.push(self.chain(&[boxes * FLOAT, boxes * FLOAT, boxes * FLOAT]));
        }
        let all = self.allocate(boxes * BOX);
        self.free_all(columns);
        self.free_all(differences);
        all
    }

    fn proposal_loss(&mut self, positive: usize) {
        let sampled = 256 * self.images;
        let indexes = self.allocate(sampled * INDEX);
        let own = [self.allocate(positive * BOX), self.allocate(positive * BOX), self.allocate(sampled * FLOAT)];
        self.brief(positive * BOX);
        self.brief(sampled * FLOAT);
        let all = self.anchors().iter().sum::<usize>() * self.images;
        let arrays = own.into_iter().chain([indexes]).collect();
        self.saved.push(Saved {
            arrays,
            gradients: vec![positive * BOX, all * BOX, all * FLOAT],
            weight: 0,
            workspace: 0,
        });
    }

    /// A loop over the objects of an image, such as for masks: each is cut out and resized.
    fn for_each_object(&mut self, objects: usize) {
        for _ in 0..objects {
            let (height, width) = (self.rng.usize(8..600), self.rng.usize(8..600));
            let cut = self.chain(&[height * width, height * width * FLOAT]);
            let grid = self.allocate(28 * 28 * 2 * FLOAT);
            let resized = self.allocate(28 * 28 * FLOAT);
            self.free_all([cut, grid, resized]);
        }
    }

    /// The features of all boxes, level by level.
    fn pooled(&mut self, pyramid: &[Id], boxes: usize) {
        let levels = self.chain(&[boxes * FLOAT, boxes * FLOAT, boxes * FLOAT, boxes * INDEX]);
        let all = self.allocate(boxes * FEATURES);
        let mut left = boxes;
        for (level, &features) in pyramid[..4].iter().enumerate() {
            let own = if level == 3 { left } else { (left as f64 * (0.3 + 0.5 * self.rng.f64())) as usize };
            left -= own;
            self.brief(boxes);
            if own == 0 {
                continue;
            }
            let (places, cut) = (self.allocate(own * INDEX), self.allocate(own * 20));
            let part = self.allocate(own * FEATURES);
            self.free(part);
            let gradients = vec![own * FEATURES, self.sizes[features]];
            self.saved.push(Saved { arrays: vec![places, cut], gradients, weight: 0, workspace: 0 });
        }
        self.free(levels);
        let (inner, outer) = (1024 * FEATURES, boxes * 1024 * FLOAT);
        let hidden = self.allocate(outer);
        self.saved.push(Saved {
            arrays: vec![all],
            gradients: vec![outer, boxes * FEATURES],
            weight: inner,
            workspace: 0,
        });
        self.saved.push(Saved {
            arrays: vec![hidden],
            gradients: vec![outer, outer],
            weight: 1024 * 1024 * FLOAT,
            workspace: 0,
        });
    }

    /// Classes and differences of boxes, and their losses.
    fn box_head(&mut self, boxes: usize) {
        let hidden = self.allocate(boxes * 1024 * FLOAT);
        let (classes, differences) = (boxes * 91 * FLOAT, boxes * 364 * FLOAT);
        let scores = [self.allocate(classes), self.allocate(differences)];
        let likely = self.allocate(classes);
        let positive = self.rng.usize(1..=boxes / 4);
        let places = self.allocate(positive * INDEX);
        let picked = [self.allocate(positive * BOX), self.allocate(positive * BOX)];
        let arrays = scores.into_iter().chain(picked).chain([likely, places, hidden]).collect();
        let gradients = vec![positive * BOX, differences, classes, boxes * 1024 * FLOAT];
        self.saved.push(Saved { arrays, gradients, weight: 1024 * 455 * FLOAT, workspace: 0 });
    }
}
