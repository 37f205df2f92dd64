//! The streams behind the handles that a caller used lately.

use gpucache::{Error, Result};
use gpucache_engine::device::{Handle, Stream, process_exits};
use gpucache_engine::range::DeviceRange;

use crate::devices::{HOST, default_stream};
use crate::scopes::thread;
use crate::{captures, forks};

/// The handle that means another stream on each thread.
const PER_THREAD: usize = 2;
/// How many streams a caller remembers. A step uses a stream for compute, one or two for copies, and some for communication.
const MOST: usize = 8;
/// After this many look-ups the driver is asked again whether a handle means the same stream, since other code may destroy a stream at any
/// time. The question takes some ten nanoseconds.
const ASK_AFTER: u32 = 1024;

/// The streams that a caller used lately, the latest first.
#[derive(Default)]
pub(crate) struct KnownStreams {
    known: Vec<KnownStream>,
    /// The number of streams that had ended when these were found.
    ended: u64,
}

struct KnownStream {
    device: i32,
    handle: usize,
    stream: Stream,
    /// The thread that asked. Another thread may work for the same caller.
    thread: usize,
    /// Tells the stream apart from a later one with the same handle.
    id: Option<u64>,
    /// The entry of a scope in which the id was asked for, and how often the stream was used since.
    entry: u64,
    uses: u32,
}

impl KnownStream {
    /// Whether the handle means the same stream on this thread as on the one that asked.
    #[inline]
    fn means_the_same(&self) -> bool {
        self.handle != PER_THREAD || self.thread == thread()
    }
}

impl KnownStreams {
    /// The stream that `handle` means on `device`. `entry` changes with each entry of a scope.
    ///
    /// # Errors
    /// If there is no such device, or no such stream.
    #[inline]
    pub(crate) fn find(&mut self, device: i32, handle: usize, entry: u64) -> Result<&Stream> {
        let is_first = self.known.first_mut().is_some_and(|first| {
            first.uses += 1;
            let is_same = (first.device, first.handle, first.entry) == (device, handle, entry);
            is_same && first.means_the_same() && first.uses < ASK_AFTER
        });
        if !is_first || self.ended != Handle::ended_streams() {
            captures::relaxed(|| self.look_up(device, handle, entry))?;
        }
        // `look_up` puts the stream there.
        self.known.first().map(|first| &first.stream).ok_or_else(|| not_served(handle))
    }

    /// The stream that `handle` means, for memory on `device` that the stream uses. Copies between GPUs use memory of another device.
    ///
    /// # Errors
    /// If there is no such device, or no such stream.
    pub(crate) fn find_user(&mut self, device: i32, handle: usize, entry: u64) -> Result<Stream> {
        let found = self.find(device, handle, entry).cloned();
        let in_capture = || Handle::in_relaxed_capture(|| Handle::keeping_current(|| in_capture(device, handle)));
        // The driver does not tell the device of a stream that is captured. If the stream is new here, it is taken for one of `device`.
        found.or_else(|error| of_any_device(handle).or_else(|| in_capture().ok()).ok_or(error))
    }

    #[cold]
    fn look_up(&mut self, device: i32, handle: usize, entry: u64) -> Result<()> {
        let ended = Handle::ended_streams();
        if std::mem::replace(&mut self.ended, ended) != ended {
            self.forget();
        }
        let place = self.known.iter().position(|known| (known.device, known.handle) == (device, handle));
        let known = place.map(|place| self.known.remove(place));
        let is_still =
            |known: &KnownStream| device == HOST || handle == PER_THREAD || Handle(handle).is_still(known.id);
        let still = known.filter(|known| known.means_the_same() && is_still(known));
        let (stream, id) = match still {
            Some(known) => (known.stream, known.id),
            None => make(device, handle)?,
        };
        self.known.truncate(MOST - 1);
        self.known.insert(0, KnownStream { device, handle, stream, thread: thread(), id, entry, uses: 0 });
        Ok(())
    }

    fn forget(&mut self) {
        let known = std::mem::take(&mut self.known);
        if forks::is_child() {
            // The drop of a GPU's last stream would call the driver, which works for the parent alone.
            std::mem::forget(known);
        }
    }
}

fn make(device: i32, handle: usize) -> Result<(Stream, Option<u64>)> {
    let default = default_stream(device)?;
    let found = match handle {
        _ if device == HOST => (default, None),
        0 | 1 => (default, None),
        _ => Handle(handle).stream_of(&default).ok_or_else(|| not_served(handle))?,
    };
    check_device(device, handle, &found.0)?;
    note(&found.0);
    // Frameworks copy between GPUs by plain copies.
    DeviceRange::share(&found.0)?;
    Ok(found)
}

/// The stream of a handle, if the handle alone tells the stream's device.
#[cold]
fn of_any_device(handle: usize) -> Option<Stream> {
    if Handle(handle).is_of_context() {
        return None;
    }
    let (stream, _) = captures::relaxed(|| Handle(handle).stream())?;
    note(&stream);
    Some(stream)
}

/// Refuses a stream of another GPU. Its memory would count for a device that the program did not name.
fn check_device(device: i32, handle: usize, stream: &Stream) -> Result<()> {
    let of = Handle::device_of(stream);
    let is_meant = of.is_none_or(|of| i32::try_from(of) == Ok(device));
    if is_meant { Ok(()) } else { Err(of_another(device, handle, of.unwrap_or_default())) }
}

/// Tells that the owner of a stream is about to destroy it. Memory that the stream used is ordered by a stream of this crate from then on.
///
/// Without this call, the stream must live as long as the process: the order of its work is recorded only when another stream needs the
/// memory, and drivers end a process that passes them the handle of a destroyed stream.
///
/// # Errors
/// If there is no such device.
///
/// ```
/// gpucache_capi::stream_ends(-1, 0)?; // the host's stream does not end, so this does nothing
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn stream_ends(device: i32, handle: usize) -> Result<()> {
    if process_exits() {
        return Ok(());
    }
    default_stream(device)?;
    if device != HOST && !Handle(handle).is_of_context() {
        captures::relaxed(|| Handle(handle).ends());
    }
    Ok(())
}

/// The stream of a handle that a graph may be captured on. The driver then answers few questions about it.
pub(crate) fn in_capture(device: i32, handle: usize) -> Result<Stream> {
    if device == HOST || Handle(handle).is_of_context() {
        return default_stream(device);
    }
    let default = default_stream(device)?;
    let found = Handle(handle).stream_in_capture(&default).ok_or_else(|| not_served(handle))?;
    check_device(device, handle, &found)?;
    note(&found);
    Ok(found)
}

/// Notes that memory of this stream is freed in its order, while other streams may still use it.
fn note(stream: &Stream) {
    stream.memory().note_unordered();
}

#[cold]
fn not_served(handle: usize) -> Error {
    Error::unavailable(
        format_args!("the stream {handle:#x}"),
        "the driver knows no such stream, or its context is not a device's primary one, or a graph is captured on it without a pool",
        "pass a stream that exists, of the context that CUDA's runtime uses, and begin a pool before a capture",
    )
}

#[cold]
fn of_another(device: i32, handle: usize, of: usize) -> Error {
    Error::unavailable(
        format_args!("the stream {handle:#x} for memory on device {device}"),
        format_args!("it is a stream of device {of}"),
        "pass the device of the stream, or a stream of that device",
    )
}
