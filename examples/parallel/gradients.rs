//! Collects the gradients of one step in buckets. A full bucket is reduced while the backward pass goes on.

use std::cell::RefCell;

use gpucache::prelude::*;

use crate::buckets::Buckets;
use crate::collectives::Collectives;
use crate::common::Result;
use crate::gpt::compute::Compute;
use crate::gpt::step::Collect;
use crate::gpt::store::{Held, Lent, Store};

/// The gradients of a step.
pub(crate) struct Gradients<'a, D: Device> {
    buckets: &'a Buckets,
    store: &'a Store<D>,
    collectives: &'a dyn Collectives<D>,
    is_sharded: bool,
    /// The state of each bucket.
    filled: RefCell<Vec<Filled<D>>>,
    /// Full buckets, in the order in which their reductions were queued.
    queued: RefCell<Vec<usize>>,
}

struct Filled<D: Device> {
    array: Option<Lent<D>>,
    /// How many of its members have come.
    came: usize,
}

impl<'a, D: Device> Gradients<'a, D> {
    /// With `is_sharded`, only this rank's part of each bucket is reduced.
    pub(crate) fn new(
        buckets: &'a Buckets,
        store: &'a Store<D>,
        collectives: &'a dyn Collectives<D>,
        is_sharded: bool,
    ) -> Self {
        let filled = buckets.all.iter().map(|_| Filled { array: None, came: 0 }).collect();
        Self { buckets, store, collectives, is_sharded, filled: RefCell::new(filled), queued: RefCell::default() }
    }

    /// All buckets, in the order in which their reductions were queued.
    ///
    /// # Errors
    /// If a gradient is missing.
    pub(crate) fn queued(&self) -> Result<Vec<usize>> {
        let queued = self.queued.take();
        if queued.len() == self.buckets.all.len() {
            return Ok(queued);
        }
        Err(format!("{} of {} buckets are full at the end of the step", queued.len(), self.buckets.all.len()).into())
    }

    /// A full bucket, whose reduction was queued.
    pub(crate) fn take(&self, which: usize) -> Result<Lent<D>> {
        let array = self.filled.borrow_mut().get_mut(which).and_then(|filled| filled.array.take());
        Ok(array.ok_or_else(|| format!("bucket {which} is taken before a gradient came"))?)
    }

    /// Ends the use of a bucket.
    pub(crate) fn give_back(&self, array: Lent<D>) {
        self.store.give_back(array);
    }
}

impl<C: Compute> Collect<C> for Gradients<'_, C::Device> {
    fn add(&self, compute: &C, parameter: usize, gradient: Held<C::Device>) -> Result<()> {
        let place = self.buckets.place(parameter).ok_or_else(|| format!("parameter {parameter} has no bucket"))?;
        let (which, start) = place;
        let (bucket, mut filled) = (&self.buckets.all[which], self.filled.borrow_mut());
        let Filled { array, came } = &mut filled[which];
        let array = match array {
            Some(array) => array,
            // All ranks reduce the padding too, so it has to be written.
            None if bucket.is_padded() => array.insert(self.store.lend_zeros([1, bucket.len])?),
            None => array.insert(self.store.lend([1, bucket.len])?),
        };
        let array = &mut array.array;
        let gradient = gradient.read()?;
        compute.copy_part((&gradient, 0), (array, start), gradient.len())?;
        *came += 1;
        if *came < bucket.members.len() {
            return Ok(());
        }
        self.queued.borrow_mut().push(which);
        if self.is_sharded { self.collectives.reduce_scatter(array) } else { self.collectives.all_reduce(array) }
    }
}
