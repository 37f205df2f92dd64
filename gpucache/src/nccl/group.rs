//! [`Group`]: collectives that are launched together.

use std::ffi::c_int;
use std::fmt;

use super::buffer::{Readable, Uses, Writable};
use super::communicator::Communicator;
use super::operation::{Kind, Number, Operation, Reduction};
use super::prepared::{WHOLE, both, part_of, read, same_lengths, written};
use crate::array::Element;
use gpucache_engine::Result;

/// Collectives of one communicator that NCCL launches together. [`Communicator::group`] makes it.
///
/// Two ranks can only send to each other in a group, and one launch costs less than several. The arrays are borrowed until
/// [`launch`](Group::launch), because the work is not on the stream before that. A group that is dropped without it does nothing.
///
/// ```no_run
/// use gpucache::{nccl::Communicator, prelude::*};
///
/// /// Exchanges a row with the next rank, in a ring.
/// fn shift(ranks: &Communicator, out: &Array<f32, Cuda>, into: &mut Array<f32, Cuda>) -> gpucache::Result<()> {
///     let (rank, all) = (ranks.rank(), ranks.ranks());
///     let mut group = ranks.group();
///     group.send(out, (rank + 1) % all)?.recv(into, (rank + all - 1) % all)?;
///     group.launch()
/// }
/// ```
#[must_use = "a group does nothing before `launch`"]
pub struct Group<'a> {
    communicator: &'a Communicator,
    operations: Vec<Operation>,
    uses: Vec<Uses<'a>>,
}

impl Communicator {
    /// An empty group of collectives.
    ///
    /// ```no_run
    /// use gpucache::{nccl::{Communicator, Reduction}, prelude::*};
    ///
    /// fn averaged(ranks: &Communicator, buckets: &mut [Array<f32, Cuda>]) -> gpucache::Result<()> {
    ///     let mut group = ranks.group();
    ///     for bucket in buckets {
    ///         group.all_reduce_in_place(bucket, Reduction::Mean)?;
    ///     }
    ///     group.launch()
    /// }
    /// ```
    pub fn group(&self) -> Group<'_> {
        Group { communicator: self, operations: Vec::new(), uses: Vec::new() }
    }
}

impl<'a> Group<'a> {
    fn add(&mut self, prepared: Result<(Operation, Uses<'a>)>) -> Result<&mut Self> {
        let (operation, uses) = prepared?;
        self.operations.push(operation);
        self.uses.push(uses);
        Ok(self)
    }

    /// Queues all operations of the group.
    ///
    /// # Errors
    /// As [`Communicator`] says. If one operation fails, the whole group fails.
    ///
    /// ```no_run
    /// use gpucache::{nccl::Communicator, prelude::*};
    ///
    /// fn spread(ranks: &Communicator, rows: &[Array<f32, Cuda>]) -> gpucache::Result<()> {
    ///     let mut group = ranks.group();
    ///     for (rank, row) in rows.iter().enumerate() {
    ///         group.send(row, rank)?;
    ///     }
    ///     group.launch()
    /// }
    /// ```
    pub fn launch(self) -> Result<()> {
        let Group { communicator, operations, uses } = self;
        communicator.launch(&operations, uses)
    }

    /// Adds a [`all_reduce`](Communicator::all_reduce).
    ///
    /// # Errors
    /// Those of its arguments.
    ///
    /// ```no_run
    /// use gpucache::{nccl::{Group, Reduction}, prelude::*};
    ///
    /// fn add<'a>(group: &mut Group<'a>, own: &'a Array<f32, Cuda>, all: &'a mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     group.all_reduce(own, all, Reduction::Sum)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn all_reduce<T: Number, S: Readable<T>, R: Writable<T>>(
        &mut self,
        from: &'a S,
        to: &'a mut R,
        by: Reduction,
    ) -> Result<&mut Self> {
        same_lengths("all_reduce", ("the input", from.len()), ("the output", to.len()), 1)?;
        let operation = Operation::numbers::<T>(Kind::AllReduce { by: by as c_int }, from.len());
        self.add(both(self.communicator, operation, from, to))
    }

    /// Adds a [`all_reduce_in_place`](Communicator::all_reduce_in_place).
    ///
    /// # Errors
    /// Those of its arguments.
    ///
    /// ```no_run
    /// use gpucache::{nccl::{Group, Reduction}, prelude::*};
    ///
    /// fn add<'a>(group: &mut Group<'a>, bucket: &'a mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     group.all_reduce_in_place(bucket, Reduction::Mean)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn all_reduce_in_place<T: Number, R: Writable<T>>(
        &mut self,
        data: &'a mut R,
        by: Reduction,
    ) -> Result<&mut Self> {
        let operation = Operation::numbers::<T>(Kind::AllReduce { by: by as c_int }, data.len());
        self.add(written(self.communicator, operation, data, WHOLE))
    }

    /// Adds a [`reduce`](Communicator::reduce).
    ///
    /// # Errors
    /// Those of its arguments.
    ///
    /// ```no_run
    /// use gpucache::{nccl::{Group, Reduction}, prelude::*};
    ///
    /// fn add<'a>(group: &mut Group<'a>, own: &'a Array<f32, Cuda>, all: &'a mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     group.reduce(own, all, Reduction::Sum, 0)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn reduce<T: Number, S: Readable<T>, R: Writable<T>>(
        &mut self,
        from: &'a S,
        to: &'a mut R,
        by: Reduction,
        root: usize,
    ) -> Result<&mut Self> {
        let ranks = self.communicator;
        same_lengths("reduce", ("the input", from.len()), ("the output", to.len()), 1)?;
        let kind = Kind::Reduce { by: by as c_int, root: ranks.checked_rank(root)? };
        let operation = Operation::numbers::<T>(kind, from.len());
        self.add(if root == ranks.rank { both(ranks, operation, from, to) } else { read(ranks, operation, from) })
    }

    /// Adds a [`reduce_scatter`](Communicator::reduce_scatter).
    ///
    /// # Errors
    /// Those of its arguments.
    ///
    /// ```no_run
    /// use gpucache::{nccl::{Group, Reduction}, prelude::*};
    ///
    /// fn add<'a>(group: &mut Group<'a>, all: &'a Array<f32, Cuda>, part: &'a mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     group.reduce_scatter(all, part, Reduction::Mean)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn reduce_scatter<T: Number, S: Readable<T>, R: Writable<T>>(
        &mut self,
        from: &'a S,
        to: &'a mut R,
        by: Reduction,
    ) -> Result<&mut Self> {
        let ranks = self.communicator;
        same_lengths("reduce_scatter", ("the input", from.len()), ("the output", to.len()), ranks.ranks)?;
        let operation = Operation::numbers::<T>(Kind::ReduceScatter { by: by as c_int }, to.len());
        self.add(both(ranks, operation, from, to))
    }

    /// Adds a [`reduce_scatter_in_place`](Communicator::reduce_scatter_in_place).
    ///
    /// # Errors
    /// Those of its arguments.
    ///
    /// ```no_run
    /// use gpucache::{nccl::{Group, Reduction}, prelude::*};
    ///
    /// fn add<'a>(group: &mut Group<'a>, bucket: &'a mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     group.reduce_scatter_in_place(bucket, Reduction::Mean)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn reduce_scatter_in_place<T: Number, R: Writable<T>>(
        &mut self,
        data: &'a mut R,
        by: Reduction,
    ) -> Result<&mut Self> {
        let ranks = self.communicator;
        let count = part_of("reduce_scatter_in_place", data.len(), ranks.ranks)?;
        let operation = Operation::numbers::<T>(Kind::ReduceScatter { by: by as c_int }, count);
        self.add(written(ranks, operation, data, (0, ranks.rank)))
    }

    /// Adds a [`all_gather`](Communicator::all_gather).
    ///
    /// # Errors
    /// Those of its arguments.
    ///
    /// ```no_run
    /// use gpucache::{nccl::Group, prelude::*};
    ///
    /// fn add<'a>(group: &mut Group<'a>, part: &'a Array<f32, Cuda>, all: &'a mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     group.all_gather(part, all)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn all_gather<T: Element, S: Readable<T>, R: Writable<T>>(
        &mut self,
        from: &'a S,
        to: &'a mut R,
    ) -> Result<&mut Self> {
        let ranks = self.communicator;
        same_lengths("all_gather", ("the output", to.len()), ("the input", from.len()), ranks.ranks)?;
        self.add(both(ranks, Operation::bytes::<T>(Kind::AllGather, from.len()), from, to))
    }

    /// Adds a [`all_gather_in_place`](Communicator::all_gather_in_place).
    ///
    /// # Errors
    /// Those of its arguments.
    ///
    /// ```no_run
    /// use gpucache::{nccl::Group, prelude::*};
    ///
    /// fn add<'a>(group: &mut Group<'a>, bucket: &'a mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     group.all_gather_in_place(bucket)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn all_gather_in_place<T: Element, R: Writable<T>>(&mut self, data: &'a mut R) -> Result<&mut Self> {
        let ranks = self.communicator;
        let count = part_of("all_gather_in_place", data.len(), ranks.ranks)?;
        self.add(written(ranks, Operation::bytes::<T>(Kind::AllGather, count), data, (ranks.rank, 0)))
    }

    /// Adds a [`broadcast`](Communicator::broadcast).
    ///
    /// # Errors
    /// Those of its arguments.
    ///
    /// ```no_run
    /// use gpucache::{nccl::Group, prelude::*};
    ///
    /// fn add<'a>(group: &mut Group<'a>, weights: &'a mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     group.broadcast(weights, 0)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn broadcast<T: Element, R: Writable<T>>(&mut self, data: &'a mut R, root: usize) -> Result<&mut Self> {
        let kind = Kind::Broadcast { root: self.communicator.checked_rank(root)? };
        self.add(written(self.communicator, Operation::bytes::<T>(kind, data.len()), data, WHOLE))
    }

    /// Adds a [`send`](Communicator::send).
    ///
    /// # Errors
    /// Those of its arguments.
    ///
    /// ```no_run
    /// use gpucache::{nccl::Group, prelude::*};
    ///
    /// fn add<'a>(group: &mut Group<'a>, row: &'a Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     group.send(row, 1)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn send<T: Element, S: Readable<T>>(&mut self, data: &'a S, to: usize) -> Result<&mut Self> {
        let kind = Kind::Send { to: self.communicator.checked_rank(to)? };
        self.add(read(self.communicator, Operation::bytes::<T>(kind, data.len()), data))
    }

    /// Adds a [`recv`](Communicator::recv).
    ///
    /// # Errors
    /// Those of its arguments.
    ///
    /// ```no_run
    /// use gpucache::{nccl::Group, prelude::*};
    ///
    /// fn add<'a>(group: &mut Group<'a>, row: &'a mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     group.recv(row, 1)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn recv<T: Element, R: Writable<T>>(&mut self, data: &'a mut R, from: usize) -> Result<&mut Self> {
        let kind = Kind::Recv { from: self.communicator.checked_rank(from)? };
        self.add(written(self.communicator, Operation::bytes::<T>(kind, data.len()), data, WHOLE))
    }
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} collectives of {:?}", self.operations.len(), self.communicator)
    }
}
