//! `compare(true)`: does the work by the graph and directly, and compares the results.

use std::hash::Hash;

use super::CapturedScope;
use super::inputs::Inputs;
use super::outputs::Outputs;
use super::run::Block;
use super::visitor::{Act, Contents, Visitor};
use crate::device::Device;
use gpucache_engine::{Error, Result};

impl<K: Hash + Eq + Clone, D: Device> CapturedScope<K, D> {
    /// Runs the graph, if there is one, and the block. Returns the results of the block.
    #[cold]
    pub(super) fn run_compared<'b, I: Inputs<D> + 'b, R: Outputs<D>, E: From<Error>>(
        &mut self,
        key: &K,
        mut inputs: I,
        block: &mut Block<'b, D, I, R, E>,
    ) -> Result<R, E> {
        let before = self.saved(&mut inputs)?;
        let Some(by_graph) = self.run_graph::<I, R>(key, &mut inputs) else {
            return self.run_block(key, &mut inputs, block);
        };
        let mut by_graph = by_graph?;
        let like = by_graph.like();
        let graph = (self.contents(&mut by_graph)?, self.saved(&mut inputs)?);
        drop(by_graph);
        self.restore(&mut inputs, before)?;
        let directly = self.run_directly(key, &mut inputs, block);
        // The run counts once, as a launch.
        self.stats.direct = self.stats.direct.saturating_sub(1);
        let mut directly = directly?;
        let direct = (self.contents(&mut directly)?, self.saved(&mut inputs)?);
        let outputs = difference(&graph.0, &direct.0, "output");
        let shapes = || (like != directly.like()).then(|| "the outputs have other shapes".to_owned());
        match outputs.or_else(shapes).or_else(|| difference(&graph.1, &direct.1, "written input")) {
            None => Ok(directly),
            Some(what) => Err(differs(&self.name, &what).into()),
        }
    }

    /// The contents of all inputs that are written.
    fn saved<I: Inputs<D>>(&self, inputs: &mut I) -> Result<Vec<Contents>> {
        let mut contents = Vec::new();
        let mut visitor = Visitor::new(&self.device, Act::Save(&mut contents));
        inputs.visit(&mut visitor);
        visitor.end().map(|()| contents)
    }

    /// The contents of all outputs.
    fn contents<R: Outputs<D>>(&self, outputs: &mut R) -> Result<Vec<Contents>> {
        let mut contents = Vec::new();
        let mut visitor = Visitor::new(&self.device, Act::Save(&mut contents));
        outputs.visit(&mut visitor);
        visitor.end().map(|()| contents)
    }

    fn restore<I: Inputs<D>>(&self, inputs: &mut I, contents: Vec<Contents>) -> Result<()> {
        let mut contents = contents.into_iter();
        let mut visitor = Visitor::new(&self.device, Act::Restore(&mut contents));
        inputs.visit(&mut visitor);
        visitor.end()
    }
}

/// The first place where the contents differ.
fn difference(graph: &[Contents], direct: &[Contents], kind: &str) -> Option<String> {
    if graph.len() != direct.len() {
        return Some(format!("the graph has {} {kind}s, and the direct run {}", graph.len(), direct.len()));
    }
    graph.iter().zip(direct).enumerate().find_map(|(number, (one, other))| {
        let byte = one.1.iter().zip(&other.1).position(|(one, other)| one != other);
        let at = |byte| format!("{kind} {number} differs from byte {byte} on");
        byte.map(at).or_else(|| (one != other).then(|| format!("{kind} {number} has another size or type")))
    })
}

fn differs(name: &str, what: &str) -> Error {
    Error::unavailable(
        format_args!("the result of the graph of `{name}`"),
        format_args!("a direct run gave another result: {what}"),
        "pass numbers that change in a `Scalar`, and use another key for other work",
    )
}
