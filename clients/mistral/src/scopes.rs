//! Scopes on the thread of mistral.rs's engine, where the loop is. Of this program, only logits processors run on that thread.

use serde::Serialize;

/// How the engine's thread enters scopes.
#[derive(Clone, Copy, Debug, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scopes {
    /// `gpucache::auto_scope`: one scope for all that happens on the thread, in which gpucache finds the loop.
    Auto,
    /// A scope `token`, which the logits processor leaves and enters again at each token.
    Token,
}

impl Scopes {
    pub(crate) const NAMES: &[&str] = &["auto", "token"];

    /// To be called after the weights are loaded.
    pub(crate) fn begin(self) {
        if let Scopes::Auto = self {
            linked::enter_everywhere();
        }
    }

    /// To be called on the engine's thread, for each token.
    pub(crate) fn next(self, is_last: bool) {
        if let Scopes::Token = self {
            linked::next_token(is_last);
        }
    }
}

#[cfg(feature = "scoped")]
mod linked {
    use std::cell::RefCell;

    use gpucache::{Scope, ScopeGuard};

    thread_local! {
        /// Open from one token to the next.
        static TOKEN: RefCell<Option<ScopeGuard>> = const { RefCell::new(None) };
    }

    pub(super) fn enter_everywhere() {
        gpucache::auto_scope();
    }

    pub(super) fn next_token(is_last: bool) {
        TOKEN.with_borrow_mut(|token| {
            // The old guard first, so that entries do not nest.
            *token = None;
            *token = (!is_last).then(|| Scope::new("token").enter());
        });
    }
}

/// Without gpucache the mode `scope` is refused, and nobody calls these.
#[cfg(not(feature = "scoped"))]
mod linked {
    pub(super) fn enter_everywhere() {}
    pub(super) fn next_token(_is_last: bool) {}
}
