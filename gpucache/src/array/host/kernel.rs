//! Work on a host's stream that can run again, so that captures record it.

use std::any::Any;
use std::sync::Arc;

use super::launch::{Arguments, add_addresses, sealed};
use crate::device::{Device, Host};
use gpucache_engine::Result;
use gpucache_engine::record::Outcome;

impl Host {
    /// As [`launch`](Host::launch), for work that can run any number of times. So a [`CapturedScope`](crate::graph::CapturedScope) records
    /// it, and runs it again with other arrays of the same sizes.
    ///
    /// # Errors
    /// As for [`launch`](Host::launch).
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let stream = Host::new_stream()?;
    /// let input = Array::full(&stream, 1000, 3.0f32)?;
    /// let mut output = Array::<f32, _>::zeros(&stream, 1000)?;
    /// stream.launch_kernel((&input, &mut output), |(input, output)| {
    ///     output.iter_mut().zip(input).for_each(|(y, x)| *y = x * x);
    /// })?;
    /// assert_eq!(output.to_vec()?, [9.0; 1000]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn launch_kernel<A: sealed::Lend + Arguments>(
        &self,
        arguments: A,
        kernel: impl for<'a> Fn(A::Slices<'a>) + Send + Sync + 'static,
    ) -> Result<()> {
        if !self.stream_handle().is_in_capture() {
            return self.launch(arguments, kernel);
        }
        let kernel = Arc::new(kernel);
        let again = kernel.clone();
        let stream = self.clone();
        self.launch_listed(
            arguments,
            move |slices| kernel(slices),
            |elements| {
                let mut arrays = Vec::new();
                add_addresses::<A>(elements, &mut arrays);
                // They stand for the lengths of the arrays only, and are never lent to work.
                let lengths = A::at(elements, &mut std::iter::empty());
                let run = move |addresses: &[u64], context: &dyn Any| {
                    let outcome = context.downcast_ref::<Arc<Outcome>>().cloned().unwrap_or_default();
                    let elements = A::at(&lengths, &mut addresses.iter().copied());
                    let again = again.clone();
                    // The launch of the graph gives the work these elements at its turn, as `LaunchableGraph::launch` requires of its caller.
                    stream.0.push(move |lent| {
                        outcome.settle(|| {
                            outcome.check()?;
                            lent.note(|arrays| add_addresses::<A>(&elements, arrays));
                            again(A::slices(elements));
                            Ok(())
                        });
                    });
                    Ok(())
                };
                self.stream_handle().list_kernel(|| (arrays, run));
            },
        )
    }
}
