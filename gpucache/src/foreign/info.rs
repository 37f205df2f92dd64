//! Idle memory that counts as free, beside the driver's own free memory. Programs choose the sizes of their caches by it.

use gpucache_engine::device::Handle;
use gpucache_engine::range::DeviceRange;

/// Bytes of the current context's device that scopes and the driver's pool keep idle, and would free on request.
pub(super) fn idle() -> usize {
    let Some(stream) = Handle(0).stream().map(|(stream, _)| stream) else { return 0 };
    let in_scopes = DeviceRange::known(stream.memory()).map_or(0, |range| {
        let (reserved, _) = range.reserved_and_live();
        reserved.saturating_sub(stream.memory().busy())
    });
    in_scopes.saturating_add(Handle::idle_in_pool(&stream)) as usize
}
