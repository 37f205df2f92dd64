//! Programs one behind the other in an endless entry, of which nothing stays: the models of a sweep, or one model again and again.

use gpucache::device::{Device, Virtual};
use gpucache::stats::ScopeStats;
use gpucache::{Allocate, Array, Scope, ScopeGuard};

/// A made-up training of a transformer.
#[derive(Clone, Copy)]
struct Model {
    layers: usize,
    width: usize,
    tokens: usize,
    steps: usize,
}

/// How the memory of a training was served.
struct Served {
    planned: f64,
    calls: u64,
    /// The memory that is reserved now, divided by the most live memory.
    reserved: f64,
}

struct Sweep {
    device: Virtual,
    scope: Scope<'static>,
    /// The entry around all programs. Without one, each program has its own.
    entry: Option<ScopeGuard>,
}

impl Sweep {
    fn new(name: &'static str) -> Sweep {
        let scope = Scope::new(name);
        let entry = Some(scope.enter());
        Sweep { device: Virtual::unchecked(1 << 40), scope, entry }
    }

    fn arrays(&self, sizes: &[usize]) -> Vec<Array<u8, Virtual>> {
        sizes.iter().map(|&bytes| self.device.zeros(bytes).unwrap()).collect()
    }

    /// Trains a model from its weights on, and drops all of it.
    fn train(&self, model: Model) -> Served {
        let _entry = self.entry.is_none().then(|| self.scope.enter());
        let before = (self.scope.stats().unwrap_or_default(), self.device.memory().times_taken());
        let square = 4 * model.width * model.width;
        let sizes = [3 * square, square, 4 * square, 4 * square, 4 * model.width, 4 * model.width].repeat(model.layers);
        let weights = self.arrays(&sizes);
        let mut moments = Vec::new();
        for _ in 0..model.steps {
            let gradients = self.passes(model, &sizes);
            if moments.is_empty() {
                moments = sizes.iter().map(|bytes| self.arrays(&[2 * bytes])).collect();
            }
            // The optimizer has a temporary array for each parameter.
            gradients.into_iter().for_each(|gradient| drop((self.arrays(&[gradient.len()]), gradient)));
        }
        drop((weights, moments));
        self.since(before)
    }

    /// The forward and the backward pass. Returns the gradients.
    fn passes(&self, Model { layers, width, tokens, .. }: Model, weights: &[usize]) -> Vec<Array<u8, Virtual>> {
        let rows = 4 * tokens * width;
        let forward = |_| {
            let input = self.arrays(&[rows]);
            let queries = self.arrays(&[3 * rows]);
            let scores = self.arrays(&[4 * tokens * tokens]);
            drop(queries);
            [input, scores, self.arrays(&[4 * rows])]
        };
        let mut activations: Vec<_> = (0..layers).map(forward).collect();
        let (mut gradients, mut last) = (Vec::new(), self.arrays(&[rows]));
        while let Some([input, scores, inner]) = activations.pop() {
            let temporary = self.arrays(&[4 * rows]);
            drop(inner);
            gradients.extend(self.arrays(&weights[..6]));
            drop((temporary, scores));
            last = self.arrays(&[rows]);
            drop(input);
        }
        drop(last);
        gradients
    }

    fn since(&self, (stats, calls): (ScopeStats, u64)) -> Served {
        let since = self.scope.stats().unwrap().since(&stats);
        let planned = since.served.planned_share();
        let reserved = self.device.memory().bytes as f64 / self.scope.stats().unwrap().high_water_bytes as f64;
        Served { planned, calls: self.device.memory().times_taken() - calls, reserved }
    }
}

const LARGE: Model = Model { layers: 24, width: 1024, tokens: 2048, steps: 300 };
const NARROW: Model = Model { layers: 12, width: 512, tokens: 1024, steps: 300 };
const SMALL: Model = Model { layers: 6, width: 512, tokens: 512, steps: 300 };

/// The layers of a smaller model look like those of a larger one, whose loop is known.
#[test]
fn models_of_a_sweep_are_planned_however_alike_their_layers_are() {
    let sweep = Sweep::new("a sweep");
    for model in [LARGE, NARROW, SMALL, Model { width: 1024, tokens: 1024, ..SMALL }] {
        let Served { planned, .. } = sweep.train(model);
        assert!(planned >= 0.95, "{} layers: {planned}", model.layers);
    }
}

#[test]
fn a_program_that_comes_again_is_planned_as_a_whole_from_the_fourth_time_on() {
    let sweep = Sweep::new("one model again");
    let model = Model { steps: 20, ..NARROW };
    (0..3).for_each(|_| _ = sweep.train(model));
    sweep.train(model);
    for time in 5..9 {
        let Served { planned, calls, reserved } = sweep.train(model);
        assert_eq!((planned, calls), (1.0, 0), "time {time}");
        assert!(reserved <= 1.02, "time {time}: {reserved}");
    }
}

/// Three models in turn, until they are planned as a whole.
fn take_turns(sweep: &Sweep) {
    let models = [LARGE, NARROW, Model { layers: 9, ..SMALL }].map(|model| Model { steps: 12, ..model });
    let turn = || models.map(|model| sweep.train(model).planned);
    (0..5).for_each(|_| _ = turn());
    for number in 6..9 {
        let planned = turn();
        assert!(planned.iter().all(|&share| share >= 0.97), "turn {number}: {planned:?}");
    }
}

#[test]
fn programs_that_take_turns_are_planned_as_a_whole() {
    take_turns(&Sweep::new("models in turn"));
}

#[test]
fn entries_that_take_turns_are_planned_as_a_whole() {
    take_turns(&Sweep { entry: None, ..Sweep::new("models in turn, each in an entry") });
}

/// Short programs are planned as a whole. A long one that follows is not.
#[test]
fn a_long_program_behind_short_ones_is_planned_by_its_loop() {
    let sweep = Sweep::new("a long one behind short ones");
    (0..6).for_each(|_| _ = sweep.train(Model { steps: 20, ..NARROW }));
    let Served { planned, .. } = sweep.train(Model { steps: 1000, ..SMALL });
    // Measured: 0.70, since a loop is searched behind 2^15 allocations that no plan served.
    assert!(planned >= 0.65, "{planned}");
}
