//! A captured training beside the other ways to allocate: each one trains in a process of its own, and must have the same losses.

use std::fmt;

use crate::Options;
use crate::buffers::Alloc;
use crate::common::Result;
use crate::report::Report;
use crate::without::{Trained, train_apart};

/// The figures of a captured training next to those of the others.
pub(crate) struct Beside<'a> {
    report: &'a Report,
    others: Vec<(Alloc, Trained)>,
}

impl<'a> Beside<'a> {
    /// Trains as long as `report` did, in each way.
    ///
    /// # Errors
    /// If one of the processes fails, or has other losses.
    pub(crate) fn measure(report: &'a Report, options: &Options) -> Result<Self> {
        let others = [Alloc::Hand, Alloc::Scoped, Alloc::Plain].into_iter().map(|alloc| {
            let trained = train_apart(report, options, alloc, options.epochs)?;
            if trained.loss_bits != report.loss_bits() {
                return Err(
                    format!("the losses differ from those of a training whose arrays are {}", name(alloc)).into()
                );
            }
            Ok((alloc, trained))
        });
        Ok(Self { report, others: others.collect::<Result<_>>()? })
    }
}

fn name(alloc: Alloc) -> &'static str {
    match alloc {
        Alloc::Hand => "preallocated",
        Alloc::Scoped => "of a scope",
        Alloc::Plain => "of the device",
    }
}

impl fmt::Display for Beside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let captured = self.report.steps_per_second();
        writeln!(f, "                       steps per second   graph ÷ this")?;
        writeln!(f, "graph of a scope       {captured:16.0}")?;
        for (alloc, trained) in &self.others {
            let speed = trained.steps_per_second;
            writeln!(f, "arrays {:16} {speed:15.0} {:14.2}", name(*alloc), captured / speed)?;
        }
        write!(f, "All losses are equal, bit by bit.")
    }
}
