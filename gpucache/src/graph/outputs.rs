//! The outputs of a captured scope: arrays that its block returns.

use std::panic::Location;

use super::visitor::Visitor;
use crate::array::{Array, Element};
use crate::device::Device;
use gpucache_engine::Result;

/// The arrays that the block of a [`CapturedScope`](super::CapturedScope) returns: an [`Array`], a tuple of up to eight outputs, a `Vec`,
/// an `Option`, or nothing: `()`.
///
/// The graph copies each of them from the scope's memory to an ordinary array. To avoid the copy, write into an input.
///
/// ```
/// use gpucache::{graph::CapturedScope, prelude::*};
///
/// let host = Host::new_stream()?;
/// let mut pairs = CapturedScope::new(&host, "pairs");
/// for _ in 0..10 {
///     let (bytes, floats) = pairs.run((), (), |()| Ok::<_, gpucache::Error>((host.zeros::<u8>(8)?, host.zeros::<f32>(2)?)))?;
///     assert_eq!((bytes.len(), floats.len()), (8, 2));
/// }
/// # Ok::<(), gpucache::Error>(())
/// ```
pub trait Outputs<D: Device>: sealed::Out<D> {}

impl<R: sealed::Out<D>, D: Device> Outputs<D> for R {}

pub(super) mod sealed {
    use super::{Location, Result, Visitor};

    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be returned from the block of a captured scope: return arrays of its device, or tuples, a `Vec` or \
            an `Option` of arrays"
    )]
    pub trait Out<D>: Sized {
        /// The shapes of the arrays.
        type Like: Clone + PartialEq + Send + 'static;

        /// Whether the type has no arrays.
        const IS_NOTHING: bool = false;

        fn like(&self) -> Self::Like;

        /// Makes arrays of these shapes, for [`copy_from`](Out::copy_from). `site` is their line in traces.
        fn allocate(device: &D, like: &Self::Like, site: &'static Location<'static>) -> Result<Self>;

        /// Copies arrays of the same shapes.
        fn copy_from(&mut self, from: &Self) -> Result<()>;

        /// Shows each array to the visitor.
        fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>);
    }
}

impl<T: Element, D: Device> sealed::Out<D> for Array<T, D> {
    type Like = Vec<usize>;

    fn like(&self) -> Vec<usize> {
        self.shape().to_vec()
    }

    fn allocate(device: &D, like: &Vec<usize>, site: &'static Location<'static>) -> Result<Self> {
        Array::allocate_at(device, like, site)
    }

    fn copy_from(&mut self, from: &Self) -> Result<()> {
        self.block.copy_from(&from.block)
    }

    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
        visitor.write(self);
    }
}

impl<R: sealed::Out<D>, D> sealed::Out<D> for Vec<R> {
    type Like = Vec<R::Like>;

    fn like(&self) -> Self::Like {
        self.iter().map(R::like).collect()
    }

    fn allocate(device: &D, like: &Self::Like, site: &'static Location<'static>) -> Result<Self> {
        like.iter().map(|like| R::allocate(device, like, site)).collect()
    }

    fn copy_from(&mut self, from: &Self) -> Result<()> {
        self.iter_mut().zip(from).try_for_each(|(to, from)| to.copy_from(from))
    }

    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
        self.iter_mut().for_each(|each| each.visit(visitor));
    }
}

impl<R: sealed::Out<D>, D> sealed::Out<D> for Option<R> {
    type Like = Option<R::Like>;

    fn like(&self) -> Self::Like {
        self.as_ref().map(R::like)
    }

    fn allocate(device: &D, like: &Self::Like, site: &'static Location<'static>) -> Result<Self> {
        like.as_ref().map(|like| R::allocate(device, like, site)).transpose()
    }

    fn copy_from(&mut self, from: &Self) -> Result<()> {
        self.iter_mut().zip(from).try_for_each(|(to, from)| to.copy_from(from))
    }

    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
        self.iter_mut().for_each(|each| each.visit(visitor));
    }
}

macro_rules! tuples {
    ($($($name:ident $place:tt)*;)*) => {
        $(#[allow(unused_variables, clippy::unused_unit)]
        impl<$($name: sealed::Out<D>,)* D> sealed::Out<D> for ($($name,)*) {
            type Like = ($($name::Like,)*);

            const IS_NOTHING: bool = true $(&& $name::IS_NOTHING)*;

            fn like(&self) -> Self::Like {
                ($(self.$place.like(),)*)
            }

            fn allocate(device: &D, like: &Self::Like, site: &'static Location<'static>) -> Result<Self> {
                Ok(($($name::allocate(device, &like.$place, site)?,)*))
            }

            fn copy_from(&mut self, from: &Self) -> Result<()> {
                $(self.$place.copy_from(&from.$place)?;)*
                Ok(())
            }

            fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
                $(self.$place.visit(visitor);)*
            }
        })*
    };
}

tuples! {
    ; A 0; A 0 B 1; A 0 B 1 C 2; A 0 B 1 C 2 E 3; A 0 B 1 C 2 E 3 F 4; A 0 B 1 C 2 E 3 F 4 G 5;
    A 0 B 1 C 2 E 3 F 4 G 5 H 6; A 0 B 1 C 2 E 3 F 4 G 5 H 6 I 7;
}
