//! Test orders of uses: a GPT's training step, and random ones.

use crate::offload::{Access, Order, Use};

/// The point at which the optimizer does its work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Optimizer {
    /// After the backward pass, layer by layer.
    AtTheEnd,
    /// As soon as a layer's gradients are complete.
    Fused,
}

#[derive(Default)]
pub(super) struct Recorder {
    pub(super) order: Order,
    now: f64,
}

impl Recorder {
    pub(super) fn array(&mut self, bytes: u64, dies: bool) -> u32 {
        self.order.bytes.push(bytes);
        self.order.dies.push(dies);
        self.order.bytes.len() as u32 - 1
    }

    /// Records work that holds its arrays for this many seconds.
    pub(super) fn work(&mut self, seconds: f64, arrays: &[(u32, Access)]) {
        let until = (self.order.uses.len() + arrays.len()) as u32;
        for &(array, access) in arrays {
            self.order.uses.push(Use { array, access, until });
            self.order.at.push(self.now);
        }
        self.now += seconds;
        self.order.length = self.now;
    }

    /// Stretches the whole entry to this many seconds.
    pub(super) fn stretched(mut self, seconds: f64) -> Order {
        let factor = seconds / self.order.length;
        self.order.at.iter_mut().for_each(|at| *at *= factor);
        self.order.length = seconds;
        self.order
    }
}

/// A training step of a GPT. Each of `layers` layers has these `weights`, each with a gradient and the two moments of AdamW.
/// Each part of a layer leaves an activation for the backward pass.
pub(super) fn gpt(layers: usize, weights: &[u64], saved: &[u64], optimizer: Optimizer, seconds: f64) -> Order {
    use Access::{Fill, Read, Write};
    let mut step = Recorder::default();
    let persistent = |step: &mut Recorder| -> Vec<Vec<u32>> {
        (0..layers).map(|_| weights.iter().map(|&bytes| step.array(bytes, false)).collect()).collect()
    };
    let [parameters, first, second] = [(); 3].map(|()| persistent(&mut step));
    let updates = |step: &mut Recorder, layer: usize, gradients: &[u32]| {
        for (part, &gradient) in gradients.iter().enumerate() {
            let states = [parameters[layer][part], first[layer][part], second[layer][part]].map(|array| (array, Write));
            step.work(0.1, &[&[(gradient, Read)], &states[..]].concat());
        }
    };
    let mut activations = Vec::new();
    for parameters in &parameters {
        let mut input = None;
        let mut layer = Vec::new();
        for (part, &bytes) in saved.iter().enumerate() {
            let output = step.array(bytes, true);
            let weight = [(parameters[part % parameters.len()], Read)];
            let reads: Vec<_> = input.map(|input| (input, Read)).into_iter().chain(weight).collect();
            step.work(1.0, &[&reads[..], &[(output, Fill)]].concat());
            input = Some(output);
            layer.push(output);
        }
        activations.push(layer);
    }
    let mut gradients = vec![Vec::new(); layers];
    for layer in (0..layers).rev() {
        gradients[layer] = weights.iter().map(|&bytes| step.array(bytes, true)).collect();
        for (part, &saved) in activations[layer].iter().enumerate().rev() {
            let weight = part % weights.len();
            let is_first = part + weights.len() >= activations[layer].len();
            let access = if is_first { Fill } else { Write };
            step.work(2.0, &[(saved, Read), (parameters[layer][weight], Read), (gradients[layer][weight], access)]);
        }
        if optimizer == Optimizer::Fused {
            updates(&mut step, layer, &gradients[layer]);
        }
    }
    if optimizer == Optimizer::AtTheEnd {
        (0..layers).for_each(|layer| updates(&mut step, layer, &gradients[layer]));
    }
    step.stretched(seconds)
}

/// The most bytes that are alive at once.
pub(super) fn peak(order: &Order) -> u64 {
    let count = order.bytes.len();
    let (mut births, mut ends) = (vec![order.uses.len(); count], vec![0; count]);
    for (place, each) in order.uses.iter().enumerate() {
        let array = each.array as usize;
        births[array] = births[array].min(place);
        ends[array] = ends[array].max(each.until as usize).max(place + 1);
    }
    let is_alive = |array: usize, place| !order.dies[array] || (births[array] <= place && place < ends[array]);
    let alive = |place| (0..count).filter(|&array| is_alive(array, place)).map(|array| order.bytes[array]).sum();
    (0..order.uses.len()).map(alive).max().unwrap_or(0)
}

/// The properties of a random order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) arrays: usize,
    pub(super) uses: usize,
    /// All arrays have 100 bytes.
    pub(super) equal: bool,
    /// No array is written, and none dies.
    pub(super) reads: bool,
}

/// A random order of uses; unless there are only reads, a third of the arrays are born in the entry and die there.
pub(super) fn random(kind: Kind, seed: u64) -> Order {
    let mut state = seed;
    // SplitMix64.
    let mut below = move |most: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % most
    };
    let mut step = Recorder::default();
    for _ in 0..kind.arrays {
        let bytes = if kind.equal { 100 } else { 10 + below(200) };
        step.array(bytes, !kind.reads && below(3) == 0);
    }
    let mut begun = vec![false; kind.arrays];
    for _ in 0..kind.uses {
        let array = below(kind.arrays as u64) as usize;
        let is_born = step.order.dies[array] && !std::mem::replace(&mut begun[array], true);
        let access = match below(5) {
            _ if kind.reads => Access::Read,
            4 => Access::Fill,
            _ if is_born => Access::Fill,
            3 => Access::Write,
            _ => Access::Read,
        };
        step.work(1.0, &[(array as u32, access)]);
    }
    step.order
}
