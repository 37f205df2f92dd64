//! The scope of allocations that no scope of the program surrounds.

use std::panic::Location;
use std::sync::OnceLock;

use super::stack::ScopeGuard;
use gpucache_engine::cache::Current;

/// The name of the scope.
const AUTO: &str = "auto";

/// The line that asked for the scope.
static SITE: OnceLock<&'static Location<'static>> = OnceLock::new();

/// Serves allocations outside of all scopes from a scope named `auto`, on every thread and until the process ends.
///
/// A thread enters the scope with its first allocation outside of all scopes, and leaves it when it ends. This one entry lasts as long
/// as the thread, so gpucache plans the loops inside it: from the third iteration on, an iteration is planned like an entry. Scopes of
/// the program, and [`uncached!`](crate::uncached), apply inside as before. With the feature `foreign`, the environment variable
/// `GPUCACHE_AUTO_SCOPE=1` does the same for a program that does not call this function.
///
/// The thread is always inside the scope, so its idle memory returns to the device only in a shortage, by
/// [`invalidate`](crate::invalidate), or when the thread ends: [`trim`](crate::device::Device::trim) and an idle limit leave it.
/// Arrays that are [placed](crate::offload) have no schedule of fetches in the scope, but in scopes inside it.
///
/// With a scope of your own around the loop's body, gpucache need not search for the loop, and the statistics have a name.
///
/// ```
/// use gpucache::prelude::*;
///
/// gpucache::auto_scope();
/// let host = Host::new();
/// for _ in 0..100 {
///     let batch = host.zeros::<f32>([64, 784])?;
///     let _loss = host.zeros::<f32>(batch.shape()[0])?;
/// }
/// assert_eq!(gpucache::stats("auto").unwrap().allocations(), 200);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[track_caller]
pub fn auto_scope() {
    let _ = SITE.set(Location::caller());
    Current::enter_unscoped_by(enter);
}

/// Enters the scope on a thread that allocates outside of all scopes.
#[cold]
fn enter() {
    if let Some(site) = SITE.get().filter(|_| !ScopeGuard::is_any()) {
        // The entry ends with the thread. A span that lasts as long would hold the program's own spans, and a subscriber that allocates when
        // it hears of the span would come here again.
        std::mem::forget(ScopeGuard::enter_unshown(AUTO, site));
        ScopeGuard::leave_out();
    }
}
