//! Who moves: the thread, and the scope that it is in, by its name.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, PoisonError};

use hashbrown::HashMap;

use super::moves::Moves;
use gpucache_engine::base::sync::{LazyLock, Mutex, MutexGuard};
use gpucache_engine::cache::{Entry, NamedCaches};

thread_local! {
    static MOVED: Cell<u64> = const { Cell::new(0) };
    /// What the thread does now is of this account, whatever scope it is in.
    static ACTING: RefCell<Option<Arc<Moves>>> = const { RefCell::new(None) };
}

/// Bytes that the calling thread has moved so far, in and out.
pub(super) fn moved_by_thread() -> u64 {
    MOVED.get()
}

/// The calling thread moves so many bytes.
pub(super) fn note_moved(bytes: u64) {
    MOVED.set(MOVED.get().saturating_add(bytes));
}

type Accounts = HashMap<Arc<str>, Arc<Moves>>;

fn accounts() -> MutexGuard<'static, Accounts> {
    static ACCOUNTS: LazyLock<Mutex<Accounts>> = LazyLock::new(Mutex::default);
    ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has what is done in `act` count for an account, if there is one: the thread may be in another scope by now.
pub(super) fn acting_for<R>(account: Option<Arc<Moves>>, act: impl FnOnce() -> R) -> R {
    let set = |account| ACTING.try_with(|acting| acting.replace(account)).ok().flatten();
    let outer = set(account);
    let answer = act();
    set(outer);
    answer
}

/// That of the outermost scope that the thread is in.
pub(super) fn of_thread() -> Option<Arc<Moves>> {
    if let Ok(Some(acting)) = ACTING.try_with(|acting| acting.borrow().clone()) {
        return Some(acting);
    }
    let name = Entry::outermost_name()?;
    let mut accounts = accounts();
    if let Some(moves) = accounts.get(&name) {
        return Some(moves.clone());
    }
    if accounts.len() == accounts.capacity() {
        // Those whose names are forgotten.
        accounts.retain(|name, _| NamedCaches::find(name).is_some());
    }
    Some(accounts.entry(name).or_default().clone())
}

/// That of a name, if anything of it was placed or moved.
pub(super) fn find(name: &str) -> Option<Arc<Moves>> {
    accounts().get(name).cloned()
}
