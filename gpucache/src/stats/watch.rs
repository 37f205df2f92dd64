//! Writes [`Top`](super::Top) once a second, and a last time at exit, to the file that `GPUCACHE_WATCH` names, without a change of code.
//!
//! The thread makes the last reading too. The exit waits for it only for a moment, because a thread that hangs in a driver may keep a lock
//! that the reading needs.
//!
//! Invariant: the file always contains one whole reading. Each reading is written to another file beside it, which is then renamed. A
//! link of that name stays one, and its target is replaced. A device or a pipe is written to and stays what it is, and so is a file that
//! `/dev` or `/proc` names, such as the one behind `/dev/stdout`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::thread::{Builder, JoinHandle, park_timeout, sleep};
use std::time::{Duration, Instant};

use super::top::top;
use gpucache_engine::base::output::Output;
use gpucache_engine::base::sync::OnceLock;
use gpucache_engine::device::call_at_exit;

const VARIABLE: &str = "GPUCACHE_WATCH";

const INTERVAL: Duration = Duration::from_secs(1);

/// The exit waits this long for the last reading. A reading takes some microseconds for each scope, and the file as long as its disk.
const LAST_READING: Duration = Duration::from_millis(500);

/// The exit looks this often whether the last reading is written.
const PAUSE: Duration = Duration::from_millis(1);

/// The thread with its process, if the variable is set and the system could start a thread.
static THREAD: OnceLock<Option<(u32, JoinHandle<()>)>> = OnceLock::new();
static IS_EXITING: AtomicBool = AtomicBool::new(false);

/// Has the thread write once more. A forked child has no such thread, and its `JoinHandle` never finishes.
fn write_at_exit() {
    let Some(Some((process, thread))) = THREAD.get() else { return };
    if *process != std::process::id() {
        return;
    }
    IS_EXITING.store(true, Release);
    thread.thread().unpark();
    let began = Instant::now();
    while !thread.is_finished() && began.elapsed() < LAST_READING {
        sleep(PAUSE);
    }
}

/// Waits for the time of the next reading. Returns whether that one is the last.
fn is_last_after_pause() -> bool {
    let began = Instant::now();
    while !IS_EXITING.load(Acquire) {
        let left = INTERVAL.saturating_sub(began.elapsed());
        if left.is_zero() {
            return false;
        }
        park_timeout(left);
    }
    true
}

/// Starts the thread at the first call, if the variable is set. The thread ends with the process.
pub(crate) fn start_from_environment() {
    let mut is_new = false;
    THREAD.get_or_init(|| {
        is_new = true;
        let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)?;
        let there = path.clone();
        let started = Builder::new().name("gpucache watch".into()).spawn(move || watch(&there));
        started.inspect_err(|error| tell(&path, error)).ok().map(|thread| (std::process::id(), thread))
    });
    // The thread has to be known at the exit.
    if is_new {
        call_at_exit(write_at_exit);
    }
}

fn watch(path: &Path) {
    let (mut top, mut is_told) = (top(), false);
    let mut is_last = false;
    loop {
        match write(&top.to_string(), path) {
            Err(error) if !std::mem::replace(&mut is_told, true) => tell(path, &error),
            _ => {}
        }
        if is_last {
            return;
        }
        is_last = is_last_after_pause();
        top.renew();
    }
}

/// The name of a file in the same folder that no other process uses.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

fn write(text: &str, path: &Path) -> io::Result<()> {
    let text = format!("process {}\n\n{text}\n", std::process::id());
    // `/dev/stdout` may be a file, which contains what the program wrote.
    let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
    let is_of_system = folder.is_some_and(|folder| folder == Path::new("/dev") || folder.starts_with("/proc"));
    if is_of_system || fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Output::append(path)?.write_all(text.as_bytes());
    }
    // A link stays one.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let beside = beside(path);
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The file may not exist. The reported error is the first one.
        let _ = fs::remove_file(beside);
    }
    written
}

/// If stderr is closed, nobody reads it.
fn tell(path: &Path, error: &io::Error) {
    let _ = writeln!(io::stderr(), "gpucache: {VARIABLE}={}: {error}", path.display());
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_is_no_file_is_not_replaced() {
        let path = std::env::temp_dir().join(format!("gpucache-watch-{}", std::process::id()));
        let socket = UnixListener::bind(&path).unwrap();
        assert!(write("text", &path).is_err(), "nobody can write to a socket by its name");
        assert!(fs::metadata(&path).unwrap().file_type().is_socket());
        drop(socket);
        fs::remove_file(&path).unwrap();
        write("text", &path).unwrap();
        assert!(fs::read_to_string(&path).unwrap().ends_with("text\n"));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_link_stays_one() {
        let path = std::env::temp_dir().join(format!("gpucache-watch-to-{}", std::process::id()));
        let link = path.with_extension("link");
        fs::write(&path, "").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write("text", &link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&path).unwrap().ends_with("text\n"));
        fs::remove_file(link).unwrap();
        fs::remove_file(path).unwrap();
    }
}
