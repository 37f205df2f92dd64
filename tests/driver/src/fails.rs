//! Calls that fail on purpose, by the name of their function.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::answer::{Answer, lock};
use crate::status::Status;

struct Rule {
    /// The calls that still go as usual, and the calls after them that fail.
    before: u64,
    left: u64,
    status: Status,
}

static RULES: Mutex<BTreeMap<String, Rule>> = Mutex::new(BTreeMap::new());

/// Whether there was ever a rule. Without one, a call only reads this.
static HAS_RULES: AtomicBool = AtomicBool::new(false);

/// Replaces the rule of a function. With `times` 0, only removes it.
pub(crate) fn set(name: &str, after: u64, times: u64, status: Status) {
    HAS_RULES.store(true, Ordering::SeqCst);
    let mut rules = lock(&RULES);
    rules.remove(name);
    if times > 0 {
        rules.insert(name.into(), Rule { before: after, left: times, status });
    }
}

/// The status of this call of a function, if it fails on purpose.
pub(crate) fn check(name: &str) -> Answer {
    if !HAS_RULES.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut rules = lock(&RULES);
    match rules.get_mut(name) {
        Some(rule) if rule.before > 0 => rule.before -= 1,
        Some(rule) if rule.left > 0 => {
            rule.left -= u64::from(rule.left != u64::MAX);
            return Err(rule.status);
        }
        _ => {}
    }
    Ok(())
}
