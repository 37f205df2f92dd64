//! The policies of a replay.

use std::fmt;
use std::str::FromStr;

use gpucache::{Recycle, Scope, ScopeGuard};

/// The part that serves the arrays of a replay.
///
/// ```
/// use gpucache_report::replay::Policy;
///
/// assert_eq!("keyed".parse(), Ok(Policy::Keyed));
/// assert_eq!(Policy::ALL.map(|policy| policy.to_string()), ["auto", "keyed", "range", "direct"]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// A plan for the scope's order of allocations. The scope's lists and the range serve deviations.
    #[default]
    Auto,
    /// The scope's lists, by exact size.
    Keyed,
    /// The device's range of addresses, shared by all sizes.
    Range,
    /// The device, for each array anew: no scope is entered.
    Direct,
}

impl Policy {
    /// All of them.
    ///
    /// ```
    /// use gpucache_report::replay::Policy;
    ///
    /// assert!(Policy::ALL.contains(&Policy::default()));
    /// ```
    pub const ALL: [Policy; 4] = [Policy::Auto, Policy::Keyed, Policy::Range, Policy::Direct];

    /// The name on command lines and in reports.
    ///
    /// ```
    /// use gpucache_report::replay::Policy;
    ///
    /// assert_eq!(Policy::Range.name(), "range");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Auto => "auto",
            Policy::Keyed => "keyed",
            Policy::Range => "range",
            Policy::Direct => "direct",
        }
    }

    pub(super) fn enter(self, scope: &str) -> ScopeGuard {
        match self {
            Policy::Auto => Scope::new(scope).recycle(Recycle::Auto).enter(),
            Policy::Keyed => Scope::new(scope).recycle(Recycle::Keyed).enter(),
            Policy::Range => Scope::new(scope).recycle(Recycle::Range).enter(),
            Policy::Direct => ScopeGuard::outside(),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let policy = Policy::ALL.into_iter().find(|policy| policy.name() == text);
        policy.ok_or_else(|| "say auto, keyed, range or direct".to_owned())
    }
}
