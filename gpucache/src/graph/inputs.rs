//! The inputs of a captured scope: the arrays that its block uses and does not allocate.

use super::visitor::Visitor;
use crate::array::{Array, Element};
use crate::device::Device;

/// The arrays that the block of a [`CapturedScope`](super::CapturedScope) uses: a reference to an array or to a slice of arrays, a `Vec`,
/// an `Option`, a tuple of up to twelve inputs, or nothing: `()`.
///
/// To pass a struct of arrays, implement this trait for a reference to the struct. [`visit`](Inputs::visit) must show every array
/// that the block uses. A wrong implementation costs speed only: the graph is then not made, or made again.
///
/// ```
/// use gpucache::graph::{CapturedScope, Inputs, Visitor};
/// use gpucache::prelude::*;
///
/// struct Layer {
///     weights: Array<f32, Host>,
///     bias: Array<f32, Host>,
/// }
///
/// impl Inputs<Host> for &mut Layer {
///     type Lent<'a> = &'a mut Layer;
///
///     fn lend(&mut self) -> &mut Layer {
///         self
///     }
///
///     fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, Host>) {
///         visitor.read(&self.weights);
///         visitor.write(&mut self.bias);
///     }
/// }
///
/// let host = Host::new_stream()?;
/// let mut layer = Layer { weights: Array::full(&host, 8, 1.0)?, bias: Array::full(&host, 8, 0.0)? };
/// let mut scope = CapturedScope::new(&host, "layer");
/// for _ in 0..10 {
///     scope.run(0, &mut layer, |layer| {
///         layer.bias.device().clone().launch_kernel((&layer.weights, &mut layer.bias), |(weights, bias)| {
///             bias.iter_mut().zip(weights).for_each(|(bias, weight)| *bias += weight);
///         })
///     })?;
/// }
/// assert_eq!(layer.bias.to_vec()?, [10.0; 8]);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub trait Inputs<D: Device> {
    /// The type that the block gets.
    type Lent<'a>;

    /// Lends the arrays to the block.
    ///
    /// ```
    /// use gpucache::{graph::Inputs, prelude::*};
    ///
    /// let array = Host::new_stream()?.zeros::<u8>(4)?;
    /// let mut inputs = (&array, vec![&array; 2]);
    /// let (one, both) = Inputs::<Host>::lend(&mut inputs);
    /// assert_eq!((one.len(), both.len()), (4, 2));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn lend(&mut self) -> Self::Lent<'_>;

    /// Shows each array to the visitor, always in the same order. The lifetime says that the arrays stay where they are for the run.
    ///
    /// ```
    /// use gpucache::graph::{Inputs, Visitor};
    /// use gpucache::prelude::*;
    ///
    /// /// A table, and what was found in it.
    /// struct Search {
    ///     table: Array<u32, Host>,
    ///     found: Array<u32, Host>,
    /// }
    ///
    /// impl Inputs<Host> for &mut Search {
    ///     type Lent<'a> = &'a mut Search;
    ///
    ///     fn lend(&mut self) -> &mut Search {
    ///         self
    ///     }
    ///
    ///     fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, Host>) {
    ///         visitor.read(&self.table);
    ///         visitor.write(&mut self.found);
    ///     }
    /// }
    /// ```
    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>);

    /// Without this function, `Lent` would need a bound that closures cannot name.
    #[doc(hidden)]
    fn pass<'a>(lent: Self::Lent<'a>) -> Self::Lent<'a> {
        lent
    }
}

impl<T: Element, D: Device> Inputs<D> for &Array<T, D> {
    type Lent<'a> = &'a Array<T, D>;

    #[inline]
    fn lend(&mut self) -> &Array<T, D> {
        self
    }

    #[inline]
    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
        visitor.read(self);
    }
}

impl<T: Element, D: Device> Inputs<D> for &mut Array<T, D> {
    type Lent<'a> = &'a mut Array<T, D>;

    #[inline]
    fn lend(&mut self) -> &mut Array<T, D> {
        self
    }

    #[inline]
    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
        visitor.write(self);
    }
}

impl<T: Element, D: Device> Inputs<D> for &[Array<T, D>] {
    type Lent<'a> = &'a [Array<T, D>];

    fn lend(&mut self) -> &[Array<T, D>] {
        self
    }

    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
        visitor.list(self.len());
        self.iter().for_each(|array| visitor.read(array));
    }
}

impl<T: Element, D: Device> Inputs<D> for &mut [Array<T, D>] {
    type Lent<'a> = &'a mut [Array<T, D>];

    fn lend(&mut self) -> &mut [Array<T, D>] {
        self
    }

    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
        visitor.list(self.len());
        self.iter_mut().for_each(|array| visitor.write(array));
    }
}

impl<I: Inputs<D>, D: Device> Inputs<D> for Vec<I> {
    type Lent<'a> = Vec<I::Lent<'a>>;

    fn lend(&mut self) -> Vec<I::Lent<'_>> {
        self.iter_mut().map(I::lend).collect()
    }

    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
        visitor.list(self.len());
        self.iter_mut().for_each(|each| each.visit(visitor));
    }
}

impl<I: Inputs<D>, D: Device> Inputs<D> for Option<I> {
    type Lent<'a> = Option<I::Lent<'a>>;

    fn lend(&mut self) -> Option<I::Lent<'_>> {
        self.as_mut().map(I::lend)
    }

    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
        visitor.list(usize::from(self.is_some()));
        self.iter_mut().for_each(|each| each.visit(visitor));
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {
        $(#[allow(non_snake_case, unused_variables, clippy::unused_unit)]
        impl<$($name: Inputs<D>,)* D: Device> Inputs<D> for ($($name,)*) {
            type Lent<'a> = ($($name::Lent<'a>,)*);

            #[inline]
            fn lend(&mut self) -> Self::Lent<'_> {
                let ($($name,)*) = self;
                ($($name.lend(),)*)
            }

            #[inline]
            fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
                let ($($name,)*) = self;
                $($name.visit(visitor);)*
            }
        })*
    };
}

tuples! {
    ; A; A B; A B C; A B C E; A B C E F; A B C E F G; A B C E F G H; A B C E F G H I; A B C E F G H I J;
    A B C E F G H I J K; A B C E F G H I J K L; A B C E F G H I J K L M;
}
