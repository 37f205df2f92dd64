//! The advice in an out-of-memory error. It follows from who has the memory.

use super::amounts::Bytes;
use super::shortage::{Bound, Short, Shortage};

/// The advice where nothing is known of who has the memory.
pub(super) const DROP_SOMETHING: &str = "drop arrays or work in smaller pieces, then try again";

/// The advice for a request of so many bytes. `capacity` is what the bound allows, if that is known.
pub(super) fn advice(bytes: u64, capacity: Option<u64>, bound: Bound, shortage: Option<&Shortage>) -> String {
    // Nobody can raise what is no limit: the largest number of bytes.
    let raise = raise(bound).filter(|_| capacity != Some(u64::MAX));
    if capacity.is_some_and(|all| all < bytes) {
        let (check, smaller) = ("check the shape", "work in smaller pieces");
        return listed(
            [check].into_iter().map(String::from).chain(raise.map(String::from)).chain([smaller.into()]).collect(),
        );
    }
    let Some(shortage) = shortage else { return DROP_SOMETHING.into() };
    let mut advice = if bound == Bound::Scope { vec!["drop arrays of the scope".into()] } else { helpers(shortage) };
    advice.extend(raise.map(String::from));
    advice.push("work in smaller pieces".into());
    listed(advice) + ", then try again"
}

/// How the bound is changed, if the program can.
fn raise(bound: Bound) -> Option<&'static str> {
    match bound {
        Bound::Capacity => None,
        Bound::Limit => Some("raise the limit of the device"),
        Bound::Process => Some("raise the limit of the process"),
        Bound::Scope => Some("raise the limit of the scope"),
        Bound::Host => Some("raise the limit of host memory (`set_host_limit`)"),
    }
}

/// Steps by which the owners of memory could free some.
fn helpers(shortage: &Shortage) -> Vec<String> {
    let Shortage { held_bytes, idle_bytes, fetched_bytes, host_limited_bytes, device_placed_bytes, .. } = *shortage;
    let fetched = || format!("drop guards of fetched arrays, which keep {} on the device", Bytes(fetched_bytes));
    let host_limit = || {
        let bytes = Bytes(host_limited_bytes);
        format!("raise the limit of host memory (`set_host_limit`), which keeps {bytes} of placed arrays on the device")
    };
    let placement = || format!("give arrays with the placement `Device` another one ({})", Bytes(device_placed_bytes));
    let kept = shortage.scopes.iter().fold(idle_bytes, |sum, scope| sum.saturating_add(scope.idle_bytes));
    let has_arrays = held_bytes.saturating_sub(kept) > fetched_bytes;
    let all = [
        (fetched_bytes > 0).then(fetched),
        (host_limited_bytes > 0).then(host_limit),
        (device_placed_bytes > 0).then(placement),
        has_arrays.then(|| "drop arrays".into()),
        of_other_threads(shortage),
        of_others(shortage),
    ];
    all.into_iter().flatten().collect()
}

/// A scope that another thread is inside of keeps idle memory.
fn of_other_threads(shortage: &Shortage) -> Option<String> {
    let blocked = shortage.scopes.iter().find(|scope| scope.is_entered_elsewhere && scope.idle_bytes > 0)?;
    let (name, idle) = (Short(&blocked.scope), Bytes(blocked.idle_bytes));
    Some(format!("have the other thread leave the scope `{name}`, which keeps {idle} idle"))
}

/// Others reserve as much of the device as the request lacks.
fn of_others(shortage: &Shortage) -> Option<String> {
    let others = shortage.elsewhere_bytes?;
    let is_enough = shortage.bound == Bound::Capacity && others >= shortage.bytes;
    is_enough.then(|| format!("free memory of the device outside of gpucache ({})", Bytes(others)))
}

/// `a`, `a or b`, `a, b or c`. If a part has a comma itself: `a, or b`.
fn listed(mut parts: Vec<String>) -> String {
    let last = parts.pop().unwrap_or_default();
    let comma = if parts.iter().any(|part| part.contains(", ")) { "," } else { "" };
    if parts.is_empty() { last } else { format!("{}{comma} or {last}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::shortage::ScopeMemory;

    #[test]
    fn the_advice_names_those_who_have_the_memory_and_nobody_else() {
        let mut shortage = Shortage { bytes: 10, held_bytes: 100, fetched_bytes: 100, ..Shortage::default() };
        let advise = |shortage: &Shortage| advice(shortage.bytes, Some(100), shortage.bound, Some(shortage));
        let text = advise(&shortage);
        let guards = "drop guards of fetched arrays, which keep 100 bytes on the device, or work in smaller pieces, then try again";
        assert_eq!(text, guards);
        shortage.fetched_bytes = 0;
        assert_eq!(advise(&shortage), "drop arrays or work in smaller pieces, then try again");
        (shortage.host_limited_bytes, shortage.device_placed_bytes) = (7, 8);
        let text = advise(&shortage);
        assert!(
            text.starts_with("raise the limit of host memory (`set_host_limit`), which keeps 7 bytes of "),
            "{text}"
        );
        assert!(text.contains("give arrays with the placement `Device` another one (8 bytes), drop arrays"), "{text}");
        let idle = ScopeMemory { scope: "idle".into(), busy_bytes: 0, idle_bytes: 50, is_entered_elsewhere: false };
        let busy = ScopeMemory { scope: "busy".into(), busy_bytes: 9, idle_bytes: 7, is_entered_elsewhere: true };
        shortage.scopes = vec![idle, busy];
        assert!(advise(&shortage).contains("leave the scope `busy`, which keeps 7 bytes idle"));
        shortage.bound = Bound::Scope;
        let of_scope =
            "drop arrays of the scope, raise the limit of the scope or work in smaller pieces, then try again";
        assert_eq!(advise(&shortage), of_scope);
        assert_eq!(advice(101, Some(100), Bound::Capacity, None), "check the shape or work in smaller pieces");
    }
}
