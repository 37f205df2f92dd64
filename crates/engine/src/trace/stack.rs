//! The callers of an allocation, behind the feature `backtrace`.

use std::sync::Arc;

/// The functions that led to an allocation, the innermost first: a line for each, as `name at file:line:column`. Functions of gpucache
/// and of the standard library are left out. `None` without the feature, and where no function is known.
#[cfg(not(feature = "backtrace"))]
pub(super) fn callers() -> Option<Arc<str>> {
    None
}

#[cfg(feature = "backtrace")]
pub(super) fn callers() -> Option<Arc<str>> {
    let callers = lines(&std::backtrace::Backtrace::force_capture().to_string());
    (!callers.is_empty()).then(|| callers.join("\n").into())
}

/// The lines of a backtrace that tell of the program.
#[cfg(any(test, feature = "backtrace"))]
fn lines(backtrace: &str) -> Vec<String> {
    const OTHERS: [&str; 6] = ["gpucache", "std::", "core::", "alloc::", "__", "<"];
    let mut callers: Vec<String> = Vec::new();
    let mut is_shown = false;
    for line in backtrace.lines().map(str::trim) {
        match (line.strip_prefix("at "), line.split_once(": ")) {
            (Some(place), _) if is_shown => {
                callers.last_mut().into_iter().for_each(|caller| *caller = format!("{caller} at {place}"));
            }
            (None, Some((number, name))) if number.parse::<u32>().is_ok() => {
                is_shown = !OTHERS.iter().any(|other| is_of(name, other));
                callers.extend(is_shown.then(|| name.to_owned()));
            }
            _ => {}
        }
    }
    callers
}

/// Whether a function belongs to a crate or has such a beginning. Crates whose names only begin with `gpucache_` are the program's.
#[cfg(any(test, feature = "backtrace"))]
fn is_of(name: &str, other: &str) -> bool {
    match name.strip_prefix(other) {
        Some(rest) if other == "gpucache" => ["::", "_engine::", "_plan::"].iter().any(|end| rest.starts_with(end)),
        rest => rest.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_program_are_shown_with_their_lines() {
        let text = "   0: gpucache_engine::trace::stack::callers\n             at /a/stack.rs:19:30\n   1: gpucache::array::Array<T,D>::zeros\n   \
                    2: train::step\n             at ./src/main.rs:7:5\n   3: train::main\n   4: std::rt::lang_start\n   5: __libc_start\n";
        assert_eq!(lines(text), ["train::step at ./src/main.rs:7:5", "train::main"]);
        assert_eq!(lines("disabled backtrace"), [""; 0]);
    }
}
