//! Every kind of method: receivers, associated functions, trait implementations and default methods.
#![deny(warnings)]
use gpucache::prelude::*;
use std::rc::Rc;

struct Model {
    weights: Array<f32, Host>,
}

impl Model {
    #[cache_scope(new)]
    fn new(host: &Host) -> gpucache::Result<Self> {
        Ok(Self { weights: Array::full(host, 4, 0.5)? })
    }

    #[cache_scope(by_reference)]
    fn sum(&self) -> f32 {
        self.weights.iter().sum()
    }

    #[cache_scope(by_mutable)]
    fn scale(&mut self, by: f32) -> &mut Self {
        self.weights.iter_mut().for_each(|weight| *weight *= by);
        self
    }

    #[cache_scope(by_value)]
    fn into_weights(mut self) -> Array<f32, Host> {
        self.weights[0] = 9.0;
        self.weights
    }

    #[allow(clippy::boxed_local)]
    #[cache_scope(by_box)]
    fn len(self: Box<Self>) -> usize {
        self.weights.len()
    }

    #[cache_scope(by_rc)]
    fn count(self: &Rc<Self>) -> usize {
        Rc::strong_count(self)
    }
}

trait Step {
    const LABEL: &'static str;

    #[cache_scope(name = Self::LABEL)]
    fn step(&self) -> &'static str {
        Self::LABEL
    }

    fn required(&self) -> usize;
}

impl Step for Model {
    const LABEL: &'static str = "default method";

    #[cache_scope(trait_implementation)]
    fn required(&self) -> usize {
        self.weights.len()
    }
}

pub(crate) fn main() {
    let host = Host::new();
    let mut model = Model::new(&host).unwrap();
    assert_eq!(model.scale(2.0).sum(), 4.0);
    assert_eq!((model.step(), model.required()), ("default method", 4));
    assert_eq!(model.into_weights()[0], 9.0);
    assert_eq!(Box::new(Model::new(&host).unwrap()).len(), 4);
    assert_eq!(Rc::new(Model::new(&host).unwrap()).count(), 1);
    assert_eq!(gpucache::stats("new").unwrap().entries, 3);
    for name in ["by_reference", "by_mutable", "by_value", "by_box", "by_rc", "default method", "trait_implementation"]
    {
        assert_eq!(gpucache::stats(name).unwrap().entries, 1, "{name}");
    }
}
