//! AdamW on reduced buckets: of all numbers on each rank, or of this rank's part of each bucket.

use gpucache::prelude::*;

use crate::buckets::{Bucket, Buckets};
use crate::collectives::Collectives;
use crate::common::Result;
use crate::gpt::compute::{AdamW, Compute, Matrix};
use crate::gpt::model::Model;
use crate::gpt::parameter::{Moments, Parameter};
use crate::gpt::store::Store;
use crate::gradients::Gradients;

/// The optimizer's state on one rank.
pub(crate) struct Optimizer<D: Device> {
    /// Of this rank's part of each bucket.
    moments: Vec<Moments<D>>,
    is_sharded: bool,
}

impl<D: Device> Optimizer<D> {
    pub(crate) fn new(store: &Store<D>, buckets: &Buckets, is_sharded: bool) -> Result<Self> {
        let moments = buckets.all.iter().map(|bucket| Moments::zeros(store, [1, bucket.own.len()]));
        Ok(Self { moments: moments.collect::<Result<_>>()?, is_sharded })
    }

    /// The bytes of the state.
    pub(crate) fn bytes(&self) -> u64 {
        let numbers = |moments: &Moments<D>| moments.mean.shape()[1] + moments.square.shape()[1];
        4 * self.moments.iter().map(numbers).sum::<usize>() as u64
    }

    /// Updates the network with the gradients of a step. The calls of `collectives` for its buckets were queued.
    pub(crate) fn update<C: Compute<Device = D>>(
        &mut self,
        compute: &C,
        collectives: &dyn Collectives<D>,
        gradients: &Gradients<'_, D>,
        (buckets, model, adamw): (&Buckets, &mut Model<D>, AdamW),
    ) -> Result<()> {
        let mut parameters = model.parameters_mut();
        let mut gathered = Vec::new();
        for which in gradients.queued()? {
            let (bucket, moments) = (&buckets.all[which], &mut self.moments[which]);
            let mut array = gradients.take(which)?;
            collectives.ready(&mut array.array)?;
            update_part(compute, (bucket, &array.array), (&mut parameters, moments), adamw)?;
            if self.is_sharded {
                pack(compute, bucket, &parameters, &mut array.array)?;
                collectives.all_gather(&mut array.array)?;
                gathered.push((bucket, array));
            } else {
                gradients.give_back(array);
            }
        }
        for (bucket, mut array) in gathered {
            collectives.ready(&mut array.array)?;
            unpack(compute, bucket, &array.array, &mut parameters)?;
            gradients.give_back(array);
        }
        Ok(())
    }
}

/// Updates this rank's part of the parameters of a bucket.
fn update_part<C: Compute>(
    compute: &C,
    (bucket, gradient): (&Bucket, &Matrix<C::Device>),
    (parameters, moments): (&mut [&mut Parameter<C::Device>], &mut Moments<C::Device>),
    adamw: AdamW,
) -> Result<()> {
    let (mut mean, mut square) = (moments.mean.write()?, moments.square.write()?);
    for (member, part) in bucket.updates() {
        let parameter = &mut parameters[member.parameter];
        let numbers = parameter.numbers(adamw);
        compute.adamw_part(numbers, gradient, [&mut *parameter.value.write()?, &mut mean, &mut square], part)?;
    }
    Ok(())
}

/// Copies the updated numbers to the places of their gradients.
fn pack<C: Compute>(
    compute: &C,
    bucket: &Bucket,
    parameters: &[&mut Parameter<C::Device>],
    array: &mut Matrix<C::Device>,
) -> Result<()> {
    for (member, part) in bucket.updates() {
        let value = parameters[member.parameter].value.read()?;
        compute.copy_part((&value, part.value), (array, part.gradient), part.count)?;
    }
    Ok(())
}

/// Copies all numbers of a bucket to their parameters.
fn unpack<C: Compute>(
    compute: &C,
    bucket: &Bucket,
    array: &Matrix<C::Device>,
    parameters: &mut [&mut Parameter<C::Device>],
) -> Result<()> {
    for member in &bucket.members {
        let value = &mut parameters[member.parameter].value;
        compute.copy_part((array, member.start), (&mut *value.write()?, 0), member.count)?;
    }
    Ok(())
}
