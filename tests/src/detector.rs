//! The allocations of training a detector, made up after torchvision's Faster R-CNN with a ResNet-50 and a feature pyramid.
//!
//! The backbone has the same allocations in each step. The number and the sizes of the allocations of proposals and heads depend on
//! the boxes in the images. There is no optimizer: gradients of weights are freed at the end of the step.
//!
//! | file | content |
//! |---|---|
//! | `backbone` | the regular part: transform, ResNet, pyramid, head of the proposals |
//! | `heads` | the irregular part: anchors and targets, suppression, pooling, losses |

mod backbone;
mod heads;

use std::fmt::Write;

use fastrand::Rng;

/// The training.
#[derive(Clone, Copy, Debug)]
pub struct Training {
    /// The number of steps.
    pub steps: usize,
    /// Images in each step.
    pub images: usize,
    /// Whether the images of each step are of another size.
    pub varies: bool,
    /// The seed of boxes and sizes.
    pub seed: u64,
}

/// An array of the trace.
type Id = usize;

/// An action of the backward pass: it makes a gradient from the last one, and frees what was saved for it.
#[derive(Debug)]
struct Saved {
    arrays: Vec<Id>,
    /// The bytes of the gradients of its inputs. The last one stays until the next action.
    gradients: Vec<usize>,
    /// The bytes of the gradient of its weight, if it learns.
    weight: usize,
    /// Memory that the computation needs.
    workspace: usize,
}

/// The trace of a training, step by step.
struct Trace {
    rng: Rng,
    text: String,
    step: usize,
    sizes: Vec<usize>,
    is_alive: Vec<bool>,
    saved: Vec<Saved>,
    /// The size of the images of this step, of which the pyramid's levels are a 4th to a 64th.
    image: (usize, usize),
    images: usize,
    regular: usize,
}

impl Training {
    /// The trace, as a file with the columns `step,op,id,bytes,stream`; and the share of its allocations that are regular.
    pub fn trace(&self) -> (String, f64) {
        let mut trace = Trace {
            rng: Rng::with_seed(self.seed),
            text: "step,op,id,bytes,stream\n".to_owned(),
            step: 0,
            sizes: Vec::new(),
            is_alive: Vec::new(),
            saved: Vec::new(),
            image: (800, 1216),
            images: self.images,
            regular: 0,
        };
        for step in 0..self.steps {
            trace.step = step;
            if self.varies {
                trace.image = (32 * trace.rng.usize(20..=25), 32 * trace.rng.usize(25..=38));
            }
            trace.run();
        }
        let share = trace.regular as f64 / trace.sizes.len() as f64;
        (trace.text, share)
    }
}

impl Trace {
    fn run(&mut self) {
        let before = self.sizes.len();
        let pyramid = self.backbone();
        let proposals = self.proposal_head(&pyramid);
        let forward = self.sizes.len() - before;
        let from = self.saved.len();
        let losses = self.heads(&pyramid, &proposals);
        // The backward pass of the heads is irregular too.
        let mut weights = Vec::new();
        let loss = self.allocate(4);
        let gradient = self.backward(from, loss, &mut weights);
        let heads = self.sizes.len();
        let gradient = self.backward(0, gradient, &mut weights);
        self.regular += forward + self.sizes.len() - heads;
        let left = losses.into_iter().chain(pyramid).chain(proposals).chain(weights).chain([gradient]);
        left.for_each(|id| self.free(id));
        assert!(self.is_alive.iter().all(|is_alive| !is_alive), "a step leaves nothing");
    }

    /// Goes back through what was saved from `from` on.
    fn backward(&mut self, from: usize, mut gradient: Id, weights: &mut Vec<Id>) -> Id {
        for Saved { arrays, gradients, weight, workspace } in self.saved.split_off(from).into_iter().rev() {
            for bytes in gradients {
                let next = self.allocate(bytes);
                self.free(std::mem::replace(&mut gradient, next));
            }
            self.brief(workspace);
            if weight > 0 {
                weights.push(self.allocate(weight));
            }
            arrays.into_iter().for_each(|id| self.free(id));
        }
        gradient
    }

    fn allocate(&mut self, bytes: usize) -> Id {
        let id = self.sizes.len();
        // Arrays without elements take no memory.
        self.sizes.push(bytes.max(4));
        self.is_alive.push(true);
        self.line('a', id);
        id
    }

    /// Frees an array, unless it is free.
    fn free(&mut self, id: Id) {
        if std::mem::replace(&mut self.is_alive[id], false) {
            self.line('f', id);
        }
    }

    fn line(&mut self, op: char, id: Id) {
        let (step, bytes) = (self.step, self.sizes[id]);
        writeln!(self.text, "{step},{op},{id},{bytes},0").expect("a string takes all text");
    }

    /// An array that is freed at once.
    fn brief(&mut self, bytes: usize) {
        if bytes > 0 {
            let id = self.allocate(bytes);
            self.free(id);
        }
    }

    /// Arrays of an expression, each made from the one before. Returns the last one.
    fn chain(&mut self, sizes: &[usize]) -> Id {
        let mut last = None;
        for &bytes in sizes {
            let id = self.allocate(bytes);
            last.replace(id).into_iter().for_each(|id| self.free(id));
        }
        last.expect("an expression has a value")
    }

    fn free_all(&mut self, ids: impl IntoIterator<Item = Id>) {
        ids.into_iter().for_each(|id| self.free(id));
    }
}
