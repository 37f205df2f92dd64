//! The only error type of the crate. It is opaque and has predicates, so a new cause does not break callers.

use std::fmt;

#[cfg(feature = "cuda")]
use super::advice::DROP_SOMETHING;
use super::advice::advice;
use super::amounts::Bytes;
use super::shortage::{Bound, Shortage};

/// The result of every fallible call of this crate.
///
/// ```
/// use gpucache::prelude::*;
///
/// fn mean(array: &Array<f32, Host>) -> gpucache::Result<f32> {
///     Ok(array.to_vec()?.iter().sum::<f32>() / array.len() as f32)
/// }
///
/// assert_eq!(mean(&Array::full(&Host::new(), 4, 0.5)?)?, 0.5);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why memory could not be allocated, reached or described.
///
/// The type is opaque: ask for the cause with its predicates. The message says what happened, to which array, and what to do about it. The
/// message of a failed allocation also names the scope.
///
/// ```
/// use gpucache::prelude::*;
///
/// let error = Array::<f64, _>::zeros(&Host::new(), usize::MAX).unwrap_err();
/// assert!(error.is_invalid_shape() && !error.is_out_of_memory());
/// ```
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Kind>);

/// The message, because a `main` that returns an error prints its `Debug` form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Says how the request compares with the memory of the device, or with the limit. `capacity` is the number of bytes that there are in all,
/// if it is known.
fn lack(device: &str, bytes: usize, capacity: Option<u64>, bound: Bound, detail: &str) -> String {
    let (requested, is_of_device) = (Bytes(bytes as u64), bound == Bound::Capacity);
    let by = if is_of_device { "" } else { " by its limit" };
    match capacity.filter(|&all| all < bytes as u64) {
        Some(all) => format!("{device} has {} in all{by}, less than the {requested} requested ({detail})", Bytes(all)),
        None if is_of_device => format!("{device} has no {requested} left ({detail})"),
        None => format!("{requested} do not fit: {detail}"),
    }
}

/// The state of the device at the failure, on lines of its own.
fn shown(shortage: &Option<Box<Shortage>>) -> String {
    shortage.as_ref().map_or_else(String::new, |shortage| format!("\n{shortage}"))
}

fn remedy(bytes: usize, capacity: Option<u64>, bound: Bound, shortage: &Option<Box<Shortage>>) -> String {
    advice(bytes as u64, capacity, bound, shortage.as_deref())
}

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error("{request} could not be allocated: {cause}")]
    NotAllocated { request: String, cause: Error },
    #[error(
        "{}: {}{}",
        lack(.device, *.bytes, *.capacity, *.bound, .detail), remedy(*.bytes, *.capacity, *.bound, .shortage), shown(.shortage)
    )]
    OutOfMemory {
        device: String,
        bytes: usize,
        capacity: Option<u64>,
        bound: Bound,
        detail: String,
        shortage: Option<Box<Shortage>>,
    },
    #[cfg(feature = "cuda")]
    #[error("{what} found too little memory left ({detail}): {DROP_SOMETHING}")]
    Exhausted { what: String, detail: String },
    #[error("{what} cannot be used here ({detail}): {remedy}")]
    Unavailable { what: String, detail: String, remedy: &'static str },
    #[error("{0}")]
    InvalidShape(String),
    #[error("{operation} failed on {device} ({detail}): {remedy}")]
    DeviceFailure { device: String, operation: &'static str, detail: String, remedy: &'static str },
    #[error(
        "work on a stream of the host panicked ({0}), and the contents of arrays that it should have written are lost: drop \
         the arrays, or overwrite them by `copy_from_slice`"
    )]
    Panicked(String),
    #[error("deferred error from earlier work or a drop on this stream; this call did not run: {0}")]
    Deferred(Error),
}

impl Error {
    /// For a [`Backend`](crate::device::Backend): `bytes` could not be allocated on `device`.
    ///
    /// ```
    /// use gpucache::Error;
    ///
    /// let error = Error::out_of_memory("cuda:0", 4096, "its pool is empty");
    /// assert!(error.is_out_of_memory());
    /// ```
    pub fn out_of_memory(device: impl fmt::Display, bytes: usize, detail: impl fmt::Display) -> Error {
        let (device, detail) = (device.to_string(), detail.to_string());
        let (capacity, bound, shortage) = (None, Bound::Capacity, None);
        Error(Box::new(Kind::OutOfMemory { device, bytes, capacity, bound, detail, shortage }))
    }

    /// For a [`Backend`](crate::device::Backend): `operation` on `device` failed for a reason other than memory.
    ///
    /// ```
    /// use gpucache::Error;
    ///
    /// let error = Error::device_failure("cuda:0", "a copy", "the driver answered nothing");
    /// assert!(error.is_device_failure());
    /// ```
    pub fn device_failure(device: impl fmt::Display, operation: &'static str, detail: impl fmt::Display) -> Error {
        Error::refused(device, operation, detail, "try again, and in a new process if this repeats")
    }

    /// Like [`device_failure`](Error::device_failure), if `device` or a library refused the operation and a change in the program helps.
    #[doc(hidden)]
    pub fn refused(
        device: impl fmt::Display,
        operation: &'static str,
        detail: impl fmt::Display,
        remedy: &'static str,
    ) -> Error {
        let (device, detail) = (device.to_string(), detail.to_string());
        Error(Box::new(Kind::DeviceFailure { device, operation, detail, remedy }))
    }

    /// `what` found too little memory, and did not say how much it needed.
    #[cfg(feature = "cuda")]
    pub(crate) fn exhausted(what: String, detail: String) -> Error {
        Error(Box::new(Kind::Exhausted { what, detail }))
    }

    /// For a device's constructor: `what` does not exist on this machine or does not work. `remedy` says what to do.
    ///
    /// ```
    /// use gpucache::Error;
    ///
    /// let error = Error::unavailable("the tablet", "it is switched off", "switch it on");
    /// assert_eq!(error.to_string(), "the tablet cannot be used here (it is switched off): switch it on");
    /// assert!(error.is_unavailable());
    /// ```
    pub fn unavailable(what: impl fmt::Display, detail: impl fmt::Display, remedy: &'static str) -> Error {
        Error(Box::new(Kind::Unavailable { what: what.to_string(), detail: detail.to_string(), remedy }))
    }

    /// The same error once more, if it is of an unavailable thing: a wrong limit fails each allocation under it.
    pub(crate) fn again(&self) -> Option<Error> {
        let Kind::Unavailable { what, detail, remedy } = &*self.0 else { return None };
        Some(Error::unavailable(what, detail, remedy))
    }

    /// For front ends, which know the shapes of arrays.
    #[doc(hidden)]
    pub fn invalid_shape(message: String) -> Error {
        Error(Box::new(Kind::InvalidShape(message)))
    }

    /// Late work panicked with this text.
    #[doc(hidden)]
    pub fn panicked(text: impl Into<String>) -> Error {
        Error(Box::new(Kind::Panicked(text.into())))
    }

    /// The same error, for a device that has `capacity` bytes in all.
    pub(crate) fn of_capacity(mut self, capacity: u64) -> Error {
        if let Kind::OutOfMemory { capacity: known, .. } = &mut *self.0 {
            *known = Some(capacity);
        }
        self
    }

    /// The same error, if a limit of `limit` bytes is the cause and not the memory of the device.
    pub(crate) fn of_limit(mut self, limit: u64, of: Bound) -> Error {
        if let Kind::OutOfMemory { bound, .. } = &mut *self.0 {
            *bound = of;
        }
        self.of_capacity(limit)
    }

    /// The same error, with the state of the device after all reclaim steps failed.
    pub(crate) fn with_shortage(mut self, told: Shortage) -> Error {
        if let Kind::OutOfMemory { capacity, bound: of, shortage, .. } = &mut *self.0 {
            let (bound, most_bytes) = (*of, *capacity);
            *shortage = Some(Box::new(Shortage { bound, most_bytes, ..told }));
        }
        self
    }

    /// The same error, as the cause that stopped a request for `bytes` bytes. The device may have been asked for only a part of them.
    /// `request` says what was requested.
    pub(crate) fn stopping(mut self, request: String, dtype: &str, bytes: usize) -> Error {
        if self.is_deferred() {
            // A deferred error belongs to an earlier call.
            return self;
        }
        if let Kind::OutOfMemory { bytes: piece, shortage, .. } = &mut *self.0 {
            *piece = bytes;
            shortage.iter_mut().for_each(|shortage| dtype.clone_into(&mut shortage.dtype));
        }
        Error(Box::new(Kind::NotAllocated { request, cause: self }))
    }

    pub(crate) fn deferred(self) -> Error {
        if self.is_deferred() {
            return self;
        }
        Error(Box::new(Kind::Deferred(self)))
    }

    fn cause(&self) -> &Kind {
        match &*self.0 {
            Kind::Deferred(inner) | Kind::NotAllocated { cause: inner, .. } => inner.cause(),
            kind => kind,
        }
    }

    /// The device could not provide the memory, although idle cached memory was returned to it first. A retry helps once arrays were
    /// dropped. It does not help if the request is larger than the device or its limit; the message says so in that case.
    ///
    /// ```
    /// use gpucache::{device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(1 << 20); // bytes
    /// let error = device.zeros::<u8>(2 << 20).unwrap_err();
    /// assert!(error.is_out_of_memory());
    /// ```
    pub fn is_out_of_memory(&self) -> bool {
        match self.cause() {
            #[cfg(feature = "cuda")]
            Kind::Exhausted { .. } => true,
            cause => matches!(cause, Kind::OutOfMemory { .. }),
        }
    }

    /// Whether the present request found no memory. A deferred failure is of earlier work, which no memory helps any more.
    ///
    /// ```
    /// use gpucache::{device::Virtual, prelude::*};
    ///
    /// assert!(Virtual::new(1 << 20).zeros::<u8>(2 << 20).unwrap_err().is_shortage());
    /// ```
    pub fn is_shortage(&self) -> bool {
        !self.is_deferred() && self.is_out_of_memory()
    }

    /// Whether a limit forbids the request, even if the device has memory.
    pub(crate) fn is_of_limit(&self) -> bool {
        matches!(self.cause(), Kind::OutOfMemory { bound, .. } if *bound != Bound::Capacity)
    }

    /// Whether the limit of the process over all devices forbids the request.
    pub(crate) fn is_of_process(&self) -> bool {
        matches!(self.cause(), Kind::OutOfMemory { bound: Bound::Process, .. })
    }

    /// Whether the limit of the scope does not allow the request.
    pub(crate) fn is_of_scope(&self) -> bool {
        matches!(self.cause(), Kind::OutOfMemory { bound: Bound::Scope, .. })
    }

    /// Whether `bytes` is more than the whole device has, or more than a limit allows.
    pub(crate) fn is_beyond_all(&self, bytes: u64) -> bool {
        matches!(self.cause(), Kind::OutOfMemory { capacity: Some(all), .. } if *all < bytes)
    }

    /// The state of the device when an allocation found no memory, and who held the memory. `None` for any other failure.
    ///
    /// ```
    /// use gpucache::{device::Virtual, error::Bound, prelude::*};
    ///
    /// let device = Virtual::new(1 << 30);
    /// device.set_limit(1 << 20)?;
    /// let error = device.zeros::<u8>(2 << 20).unwrap_err();
    /// let shortage = error.shortage().unwrap();
    /// assert_eq!((shortage.bound, shortage.most_bytes), (Bound::Limit, Some(1 << 20)));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn shortage(&self) -> Option<&Shortage> {
        match self.cause() {
            Kind::OutOfMemory { shortage, .. } => shortage.as_deref(),
            _ => None,
        }
    }

    /// The device, its driver or one of its features does not exist here, or it does not support the arguments of the call. A retry does
    /// not help.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let (stream, mut array) = (Host::new_stream()?, Host::new().zeros::<u8>(4)?);
    /// let error = stream.launch(&mut array, |array| array.fill(1)).unwrap_err(); // nothing makes the array's owner wait for the stream
    /// assert!(error.is_unavailable());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn is_unavailable(&self) -> bool {
        matches!(self.cause(), Kind::Unavailable { .. })
    }

    /// A shape overflows, or does not fit the data or the array that the call got. A retry does not help.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let error = Array::from_slice(&Host::new(), [2, 3], &[1u8, 2, 3]).unwrap_err();
    /// assert!(error.is_invalid_shape());
    /// ```
    pub fn is_invalid_shape(&self) -> bool {
        matches!(self.cause(), Kind::InvalidShape(_))
    }

    /// The driver refused an operation or lost it. On CUDA such errors often persist until the process ends; the message says if they do
    /// not.
    ///
    /// ```
    /// use gpucache::Error;
    ///
    /// let error = Error::device_failure("cuda:0", "a copy", "the driver answered nothing");
    /// assert!(error.is_device_failure() && !error.is_out_of_memory());
    /// ```
    pub fn is_device_failure(&self) -> bool {
        matches!(self.cause(), Kind::DeviceFailure { .. })
    }

    /// Work on a stream of `Host::new_stream` panicked, or did not run because an array that it borrowed was to be written by work that had
    /// panicked. The message contains the text of the panic.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let stream = Host::new_stream()?;
    /// stream.launch((), |()| panic!("no such row"))?;
    /// let error = stream.synchronize().unwrap_err();
    /// assert!(error.is_panic() && error.to_string().contains("no such row"));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn is_panic(&self) -> bool {
        matches!(self.cause(), Kind::Panicked(_))
    }

    /// The failure happened in an earlier drop or in late work, which could not return an error. The call that returned this error did not
    /// run and can be repeated. The other predicates describe the earlier failure.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let stream = Host::new_stream()?;
    /// stream.launch((), |()| panic!("in late work"))?;
    /// let error = stream.synchronize().unwrap_err(); // this wait itself did not fail
    /// assert!(error.is_deferred() && stream.synchronize().is_ok());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn is_deferred(&self) -> bool {
        matches!(&*self.0, Kind::Deferred(_))
    }
}
