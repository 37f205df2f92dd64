//! The collectives of a communicator, one by one.

use super::buffer::{Readable, Writable};
use super::communicator::Communicator;
use super::group::Group;
use super::operation::{Number, Reduction};
use crate::array::Element;
use gpucache_engine::Result;

impl Communicator {
    /// Launches a group of one collective.
    fn alone<'a>(&'a self, add: impl for<'g> FnOnce(&'g mut Group<'a>) -> Result<&'g mut Group<'a>>) -> Result<()> {
        let mut group = self.group();
        add(&mut group)?;
        group.launch()
    }

    /// Reduces the elements of `from` over all ranks, and writes the results to `to` on each rank.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if the lengths differ; otherwise as [`Communicator`] says.
    ///
    /// ```no_run
    /// use gpucache::{nccl::{Communicator, Reduction}, prelude::*};
    ///
    /// fn greatest(ranks: &Communicator, own: &Array<f32, Cuda>) -> gpucache::Result<Array<f32, Cuda>> {
    ///     let mut all = Array::zeros(own.device(), own.shape())?;
    ///     ranks.all_reduce(own, &mut all, Reduction::Max)?;
    ///     Ok(all)
    /// }
    /// ```
    pub fn all_reduce<T: Number, S: Readable<T>, R: Writable<T>>(
        &self,
        from: &S,
        to: &mut R,
        by: Reduction,
    ) -> Result<()> {
        self.alone(|group| group.all_reduce(from, to, by))
    }

    /// Reduces the elements of `data` over all ranks, in place.
    ///
    /// # Errors
    /// As [`Communicator`] says.
    ///
    /// ```no_run
    /// use gpucache::{nccl::{Communicator, Reduction}, prelude::*};
    ///
    /// fn averaged(ranks: &Communicator, bucket: &mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     ranks.all_reduce_in_place(bucket, Reduction::Mean)
    /// }
    /// ```
    pub fn all_reduce_in_place<T: Number, R: Writable<T>>(&self, data: &mut R, by: Reduction) -> Result<()> {
        self.alone(|group| group.all_reduce_in_place(data, by))
    }

    /// Reduces the elements of `from` over all ranks, and writes the results to `to` on the rank `root`. The other ranks pass an array of
    /// the same length, which is not used.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if the lengths differ; [`is_unavailable`](crate::Error::is_unavailable) for a root that is no
    /// rank; otherwise as [`Communicator`] says.
    ///
    /// ```no_run
    /// use gpucache::{nccl::{Communicator, Reduction}, prelude::*};
    ///
    /// fn counted(ranks: &Communicator, own: &Array<u64, Cuda>) -> gpucache::Result<Array<u64, Cuda>> {
    ///     let mut all = Array::zeros(own.device(), own.shape())?;
    ///     ranks.reduce(own, &mut all, Reduction::Sum, 0)?;
    ///     Ok(all) // the sums on rank 0
    /// }
    /// ```
    pub fn reduce<T: Number, S: Readable<T>, R: Writable<T>>(
        &self,
        from: &S,
        to: &mut R,
        by: Reduction,
        root: usize,
    ) -> Result<()> {
        self.alone(|group| group.reduce(from, to, by, root))
    }

    /// Reduces the elements of `from` over all ranks. Each rank gets one part of the results in `to`: `from` has as many parts as there are
    /// ranks, and the first part is for rank 0.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if `from` is not as many times as long as `to` as there are ranks; otherwise as
    /// [`Communicator`] says.
    ///
    /// ```no_run
    /// use gpucache::{nccl::{Communicator, Reduction}, prelude::*};
    ///
    /// fn own_part(ranks: &Communicator, gradients: &Array<f32, Cuda>) -> gpucache::Result<Array<f32, Cuda>> {
    ///     let mut part = Array::zeros(gradients.device(), gradients.len() / ranks.ranks())?;
    ///     ranks.reduce_scatter(gradients, &mut part, Reduction::Mean)?;
    ///     Ok(part)
    /// }
    /// ```
    pub fn reduce_scatter<T: Number, S: Readable<T>, R: Writable<T>>(
        &self,
        from: &S,
        to: &mut R,
        by: Reduction,
    ) -> Result<()> {
        self.alone(|group| group.reduce_scatter(from, to, by))
    }

    /// As [`reduce_scatter`](Communicator::reduce_scatter), but the results are written to this rank's part of `data`. The other parts are
    /// undefined then.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if the length is no multiple of the ranks; otherwise as [`Communicator`] says.
    ///
    /// ```no_run
    /// use gpucache::{nccl::{Communicator, Reduction}, prelude::*};
    ///
    /// fn own_range(ranks: &Communicator, gradients: &mut Array<f32, Cuda>) -> gpucache::Result<std::ops::Range<usize>> {
    ///     ranks.reduce_scatter_in_place(gradients, Reduction::Mean)?;
    ///     let part = gradients.len() / ranks.ranks();
    ///     Ok(ranks.rank() * part..(ranks.rank() + 1) * part)
    /// }
    /// ```
    pub fn reduce_scatter_in_place<T: Number, R: Writable<T>>(&self, data: &mut R, by: Reduction) -> Result<()> {
        self.alone(|group| group.reduce_scatter_in_place(data, by))
    }

    /// Writes the elements of all ranks to `to` on each rank, those of rank 0 first.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if `to` is not as many times as long as `from` as there are ranks; otherwise as
    /// [`Communicator`] says.
    ///
    /// ```no_run
    /// use gpucache::{nccl::Communicator, prelude::*};
    ///
    /// fn gathered(ranks: &Communicator, own: &Array<f32, Cuda>) -> gpucache::Result<Array<f32, Cuda>> {
    ///     let mut all = Array::zeros(own.device(), [ranks.ranks(), own.len()])?;
    ///     ranks.all_gather(own, &mut all)?;
    ///     Ok(all)
    /// }
    /// ```
    pub fn all_gather<T: Element, S: Readable<T>, R: Writable<T>>(&self, from: &S, to: &mut R) -> Result<()> {
        self.alone(|group| group.all_gather(from, to))
    }

    /// As [`all_gather`](Communicator::all_gather), where each rank's elements are its part of `data` already.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if the length is no multiple of the ranks; otherwise as [`Communicator`] says.
    ///
    /// ```no_run
    /// use gpucache::{nccl::Communicator, prelude::*};
    ///
    /// /// Each rank has updated its own part of the weights.
    /// fn share(ranks: &Communicator, weights: &mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     ranks.all_gather_in_place(weights)
    /// }
    /// ```
    pub fn all_gather_in_place<T: Element, R: Writable<T>>(&self, data: &mut R) -> Result<()> {
        self.alone(|group| group.all_gather_in_place(data))
    }

    /// Writes the elements that `data` has on the rank `root` to `data` on all other ranks.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) for a root that is no rank; otherwise as [`Communicator`] says.
    ///
    /// ```no_run
    /// use gpucache::{nccl::Communicator, prelude::*};
    ///
    /// fn begin(ranks: &Communicator, weights: &mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     ranks.broadcast(weights, 0)
    /// }
    /// ```
    pub fn broadcast<T: Element, R: Writable<T>>(&self, data: &mut R, root: usize) -> Result<()> {
        self.alone(|group| group.broadcast(data, root))
    }

    /// Sends elements to the rank `to`, which calls [`recv`](Communicator::recv) for as many.
    ///
    /// Two ranks that send to each other make these calls in one [`group`](Communicator::group); otherwise each waits for the other.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if there is no such rank; otherwise as [`Communicator`] says.
    ///
    /// ```no_run
    /// use gpucache::{nccl::Communicator, prelude::*};
    ///
    /// fn pass_on(ranks: &Communicator, activations: &Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     ranks.send(activations, ranks.rank() + 1)
    /// }
    /// ```
    pub fn send<T: Element, S: Readable<T>>(&self, data: &S, to: usize) -> Result<()> {
        self.alone(|group| group.send(data, to))
    }

    /// Receives elements from the rank `from`, which calls [`send`](Communicator::send) for as many.
    ///
    /// # Errors
    /// As for [`send`](Communicator::send).
    ///
    /// ```no_run
    /// use gpucache::{nccl::Communicator, prelude::*};
    ///
    /// fn take_over(ranks: &Communicator, activations: &mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     ranks.recv(activations, ranks.rank() - 1)
    /// }
    /// ```
    pub fn recv<T: Element, R: Writable<T>>(&self, data: &mut R, from: usize) -> Result<()> {
        self.alone(|group| group.recv(data, from))
    }
}
