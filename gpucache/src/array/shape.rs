//! What a shape can be written as.

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
pub trait Shape {
    /// The dimensions, outermost first. None at all is a single element.
    fn dims(&self) -> &[usize];
}

impl Shape for usize {
    fn dims(&self) -> &[usize] {
        std::slice::from_ref(self)
    }
}

impl<const N: usize> Shape for [usize; N] {
    fn dims(&self) -> &[usize] {
        self
    }
}

impl Shape for [usize] {
    fn dims(&self) -> &[usize] {
        self
    }
}

impl Shape for Vec<usize> {
    fn dims(&self) -> &[usize] {
        self
    }
}

impl<S: Shape + ?Sized> Shape for &S {
    fn dims(&self) -> &[usize] {
        (**self).dims()
    }
}
