//! The types that describe a shape.

/// The dimensions of an array: a `usize`, an array of `usize`, or a slice.
///
/// ```
/// use gpucache::prelude::*;
///
/// let host = Host::new();
/// assert_eq!(Array::<f32, _>::zeros(&host, 6)?.shape(), [6]);
/// assert_eq!(Array::<f32, _>::zeros(&host, [2, 3])?.shape(), [2, 3]);
/// assert_eq!(Array::<f32, _>::zeros(&host, &[2, 3][..])?.shape(), [2, 3]);
/// assert_eq!(Array::<f32, _>::zeros(&host, [])?.len(), 1);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a shape: pass a `usize`, or an array, a `Vec` or a slice of `usize`",
    note = "a literal such as `[2, 3]` is one as it stands; convert other integers by `usize::try_from`, and a tuple into an array"
)]
pub trait Shape {
    /// The dimensions, outermost first. An empty slice means a single element.
    ///
    /// ```
    /// use gpucache::Shape;
    ///
    /// assert_eq!(5.dims(), [5]);
    /// assert_eq!([2, 3].dims(), [2, 3]);
    /// assert_eq!(vec![4; 3].dims(), [4, 4, 4]);
    /// ```
    fn dims(&self) -> &[usize];
}

#[diagnostic::do_not_recommend]
impl Shape for usize {
    fn dims(&self) -> &[usize] {
        std::slice::from_ref(self)
    }
}

#[diagnostic::do_not_recommend]
impl<const N: usize> Shape for [usize; N] {
    fn dims(&self) -> &[usize] {
        self
    }
}

#[diagnostic::do_not_recommend]
impl Shape for [usize] {
    fn dims(&self) -> &[usize] {
        self
    }
}

#[diagnostic::do_not_recommend]
impl Shape for Vec<usize> {
    fn dims(&self) -> &[usize] {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<S: Shape + ?Sized> Shape for &S {
    fn dims(&self) -> &[usize] {
        (**self).dims()
    }
}
