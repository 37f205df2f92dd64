//! A scope as a value: [`Scope`], [`OwnedScope`]. The macros expand to it.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::name;
use super::stack::ScopeGuard;
use crate::device::IntoLimit;
use crate::diagnosis::Diagnosis;
use crate::offload::Placement;
use crate::stats::{Invalidated, ScopeStats, reset_peaks};
use gpucache_engine::Limit;
use gpucache_engine::cache::{NamedCaches, Recycle, Terms};
use gpucache_engine::home::Visit;

/// A scope as a value: its name and its options. Use it instead of [`cache_scope!`](crate::cache_scope) for a name or an option that is
/// chosen at run time.
///
/// A value holds no memory, and is cheap to make and to copy. Values with the same name mean the same scope. Each thread that enters the
/// scope has a cache of its own for it.
///
/// The whole process shares the names. In a library, put the module's path in front: `Scope::new(concat!(module_path!(), "::step"))`, as
/// the macros do for `self::step`. Or make a scope that nobody else can name, by [`owned`](Scope::owned).
///
/// ```
/// use gpucache::{Recycle, Scope, prelude::*};
///
/// let host = Host::new();
/// let decode = Scope::new("decode").recycle(Recycle::Keyed);
/// for _ in 0..3 {
///     let sum: f32 = decode.run(|| Ok::<_, gpucache::Error>(Array::full(&host, [4], 0.5f32)?.iter().sum()))?;
///     assert_eq!(sum, 2.0);
/// }
/// assert_eq!(decode.stats().unwrap().hits, 2);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    name: &'a str,
    terms: Terms,
    placement: Option<Placement>,
    /// The place of the constructor call, for messages.
    site: &'static Location<'static>,
}

impl PartialEq for Scope<'_> {
    /// Compares everything but the places of the constructor calls.
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.terms, self.placement) == (other.name, other.terms, other.placement)
    }
}

impl Eq for Scope<'_> {}

/// A scope that nobody else can name, for an object that repeats its own work. Dropping it frees the scope's memory.
///
/// ```
/// use gpucache::{OwnedScope, Scope, prelude::*};
///
/// struct Decoder {
///     host: Host,
///     scope: OwnedScope,
/// }
///
/// impl Decoder {
///     fn step(&self) -> gpucache::Result<f32> {
///         let _inside = self.scope.enter();
///         Ok(Array::full(&self.host, [4], 1.0f32)?.iter().sum())
///     }
/// }
///
/// let decoder = Decoder { host: Host::new(), scope: Scope::new("decoder").owned() };
/// assert_eq!((decoder.step()?, decoder.step()?), (4.0, 4.0));
/// assert_eq!(decoder.scope.as_scope().stats().unwrap().hits, 1);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Debug)]
pub struct OwnedScope {
    name: String,
    /// Everything but its name.
    like: Scope<'static>,
}

impl<'a> Scope<'a> {
    /// The scope of this name, with [`Recycle::Auto`] and without a limit. An out-of-memory error in the scope names the line of this
    /// call ([`Shortage::scope_site`](crate::error::Shortage::scope_site)).
    ///
    /// ```
    /// use gpucache::{Scope, prelude::*};
    ///
    /// const STEP: Scope<'_> = Scope::new("mycrate::step");
    /// STEP.run(|| Host::new().zeros::<f32>(16))?;
    /// assert_eq!(gpucache::stats("mycrate::step").unwrap().entries, 1);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[track_caller]
    pub const fn new(name: &'a str) -> Scope<'a> {
        Scope { name, terms: Terms::new(), placement: None, site: Location::caller() }
    }

    /// Says how the scope reuses freed memory. If entries of one scope differ, the newest one that keeps any memory decides.
    ///
    /// ```
    /// use gpucache::{Recycle, Scope, prelude::*};
    ///
    /// let off = Scope::new("off").recycle(Recycle::Off);
    /// off.run(|| Host::new().zeros::<f32>(16))?;
    /// assert_eq!(off.stats().unwrap().idle_bytes, 0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub const fn recycle(self, recycle: Recycle) -> Scope<'a> {
        Scope { terms: self.terms.with_recycle(recycle), ..self }
    }

    /// Limits how much memory the scope holds on each thread, in use or idle: bytes, a [`Limit`], or a text such as
    /// `"512MiB"`.
    ///
    /// - At a hard limit the idle memory of the scope goes back first: its lists, and then the block of its plan. An allocation that
    ///   would still exceed the limit is an error that names it ([`Error::shortage`](crate::Error::shortage)).
    /// - At a soft limit the same memory goes back first, and then the scope holds more.
    /// - A share is a share of the device that the scope allocates on, or of the smallest device if it uses several.
    ///
    /// The limit counts the busy and idle bytes of [`stats`](Scope::stats): arrays and blocks of plans, and not the pages that they
    /// share with other scopes. Entries of one scope may have different limits: the newest decides. If the scope holds more than
    /// the limit, an entry returns idle memory when it begins, and when an entry within it ends.
    ///
    /// With a text that is no limit, the first allocation in the scope that needs memory returns an error, which quotes the text.
    /// `text.parse::<Limit>()` reports the error at once. For constants there is [`with_limit`](Scope::with_limit).
    ///
    /// ```
    /// use gpucache::{Scope, device::Virtual, error::Bound, prelude::*};
    ///
    /// let device = Virtual::new(1 << 30);
    /// let decode = Scope::new("decode, limited").limit("4MiB");
    /// let error = decode.run(|| device.zeros::<u8>(5 << 20).unwrap_err());
    /// assert_eq!(error.shortage().unwrap().bound, Bound::Scope);
    /// assert!(decode.run(|| device.zeros::<u8>(4 << 20)).is_ok());
    /// ```
    pub fn limit(self, limit: impl IntoLimit) -> Scope<'a> {
        self.with_limit(limit.into_limit().unwrap_or_else(Limit::rejected))
    }

    /// As [`limit`](Scope::limit), also in constants.
    ///
    /// ```
    /// use gpucache::{Limit, Scope, prelude::*};
    ///
    /// const STEP: Scope<'_> = Scope::new("step, limited").with_limit(Limit::soft(16 << 20));
    /// assert!(STEP.run(|| Host::new().zeros::<u8>(17 << 20)).is_ok()); // nothing was idle
    /// ```
    pub const fn with_limit(self, limit: Limit) -> Scope<'a> {
        Scope { terms: self.terms.with_limit(limit), ..self }
    }

    /// Says where arrays that are placed inside rest while nobody uses them ([`Placed::new`](crate::offload::Placed::new),
    /// [`Placed::zeros`](crate::offload::Placed::zeros)). The innermost scope with a placement decides. Outside of such scopes
    /// [`set_default_placement`](crate::offload::set_default_placement) decides. Arrays that are placed already stay as they are.
    ///
    /// ```
    /// use gpucache::{Scope, prelude::*, offload::{Placed, Placement}};
    ///
    /// let load = Scope::new("load").placement(Placement::Host);
    /// let weights = load.run(|| Placed::<f32, _>::zeros(&Host::new_stream()?, 1000))?;
    /// assert_eq!(weights.placement(), Placement::Host);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub const fn placement(self, placement: Placement) -> Scope<'a> {
        Scope { placement: Some(placement), ..self }
    }

    /// The name.
    ///
    /// ```
    /// use gpucache::Scope;
    ///
    /// assert_eq!(Scope::new("step").name(), "step");
    /// ```
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Enters the scope: until the guard is dropped, this thread's allocations come from the scope's cache. Bind the guard to a name
    /// (`let _inside = scope.enter();`). `let _ = scope.enter();` leaves the scope at once.
    ///
    /// Do not hold the guard across an `.await`: other tasks of the thread would run inside the scope. The guard is not `Send`, so most
    /// executors refuse such code. In async code use the attribute, which enters the scope at each poll.
    ///
    /// ```
    /// use gpucache::{Scope, prelude::*};
    ///
    /// let step = Scope::new("step");
    /// for _ in 0..3 {
    ///     let _inside = step.enter();
    ///     let _activations = Host::new().zeros::<f32>(1000)?;
    /// }
    /// assert_eq!(step.stats().unwrap().hits, 2);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn enter(&self) -> ScopeGuard {
        self.enter_for(Visit::Entry)
    }

    /// Enters for one poll of a future. The first poll counts as an entry. Only the attribute uses it.
    #[doc(hidden)]
    pub fn enter_poll(&self, is_polled: &mut bool) -> ScopeGuard {
        let visit = if std::mem::replace(is_polled, true) { Visit::LaterPoll } else { Visit::FirstPoll };
        self.enter_for(visit)
    }

    #[inline]
    fn enter_for(&self, visit: Visit) -> ScopeGuard {
        ScopeGuard::enter(self.name, self.site, (self.terms, self.placement), visit)
    }

    /// Runs `body` inside the scope.
    ///
    /// ```
    /// use gpucache::{Scope, prelude::*};
    ///
    /// let sum: f32 = Scope::new("sum").run(|| Array::full(&Host::new(), 4, 0.5f32).map(|array| array.iter().sum()))?;
    /// assert_eq!(sum, 2.0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn run<R>(&self, body: impl FnOnce() -> R) -> R {
        let _inside = self.enter();
        body()
    }

    /// Calls [`invalidate`](crate::invalidate) for this scope.
    ///
    /// ```
    /// use gpucache::{Scope, prelude::*};
    ///
    /// let frame = Scope::new("frame");
    /// frame.run(|| Host::new().zeros::<u8>(4096))?;
    /// assert_eq!(frame.invalidate().bytes, 4096);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn invalidate(&self) -> Invalidated {
        name::invalidate(self.name)
    }

    /// Calls [`stats`](crate::stats()) for this scope.
    ///
    /// ```
    /// use gpucache::{Scope, prelude::*};
    ///
    /// let step = Scope::new("step");
    /// assert!(step.stats().is_none(), "it was never entered");
    /// step.run(|| Host::new().zeros::<u8>(4096))?;
    /// assert_eq!(step.stats().unwrap().misses, 1);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn stats(&self) -> Option<ScopeStats> {
        name::stats(self.name)
    }

    /// Calls [`diagnose`](crate::diagnose()) for this scope.
    ///
    /// ```
    /// use gpucache::{Scope, prelude::*};
    ///
    /// let step = Scope::new("step");
    /// for _ in 0..100 {
    ///     step.run(|| Host::new().zeros::<f32>(64).map(drop))?;
    /// }
    /// assert!(step.diagnose().unwrap().findings.is_empty());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn diagnose(&self) -> Option<Diagnosis> {
        name::diagnose(self.name)
    }

    /// Calls [`stats::reset_peaks`](crate::stats::reset_peaks) for this scope.
    ///
    /// ```
    /// use gpucache::{Scope, prelude::*};
    ///
    /// let phase = Scope::new("a phase");
    /// phase.run(|| Host::new().zeros::<u8>(4096).map(drop))?;
    /// assert!(phase.reset_peaks());
    /// assert_eq!(phase.stats().unwrap().high_water_bytes, 0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn reset_peaks(&self) -> bool {
        reset_peaks(self.name)
    }

    /// A new scope with the options of this one. Its name is this name with a number that no other scope has.
    ///
    /// ```
    /// use gpucache::Scope;
    ///
    /// let (first, second) = (Scope::new("decoder").owned(), Scope::new("decoder").owned());
    /// assert_ne!(first.as_scope().name(), second.as_scope().name());
    /// ```
    pub fn owned(&self) -> OwnedScope {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut names = std::iter::repeat_with(|| format!("{}#{}", self.name, NEXT.fetch_add(1, Relaxed)));
        // The program may have a scope with such a name.
        let name = names.find(|name| NamedCaches::find(name).is_none()).unwrap_or_default();
        OwnedScope { name, like: Scope { name: "", ..*self } }
    }
}

impl OwnedScope {
    /// The scope as a [`Scope`], for its other methods.
    ///
    /// ```
    /// use gpucache::{Scope, prelude::*};
    ///
    /// let decoder = Scope::new("decoder").owned();
    /// decoder.run(|| Host::new().zeros::<u8>(4096))?;
    /// assert_eq!(decoder.as_scope().stats().unwrap().busy_blocks, 0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn as_scope(&self) -> Scope<'_> {
        Scope { name: &self.name, ..self.like }
    }

    /// Calls [`Scope::enter`].
    ///
    /// ```
    /// use gpucache::{Scope, prelude::*};
    ///
    /// let decoder = Scope::new("decoder").owned();
    /// let inside = decoder.enter();
    /// let tokens = Host::new().zeros::<u32>(16)?;
    /// drop(inside);
    /// assert_eq!(decoder.as_scope().stats().unwrap().busy_blocks, 1);
    /// # drop(tokens);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn enter(&self) -> ScopeGuard {
        self.as_scope().enter()
    }

    /// Calls [`Scope::run`].
    ///
    /// ```
    /// use gpucache::{Scope, prelude::*};
    ///
    /// let decoder = Scope::new("decoder").owned();
    /// let tokens = decoder.run(|| Host::new().zeros::<u32>(16))?;
    /// assert_eq!(tokens.len(), 16); // it may leave the scope
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn run<R>(&self, body: impl FnOnce() -> R) -> R {
        self.as_scope().run(body)
    }
}

impl Drop for OwnedScope {
    /// Live arrays stay valid. Their memory is freed when they are dropped.
    fn drop(&mut self) {
        name::forget(&self.name);
    }
}
