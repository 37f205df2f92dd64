//! Why there was no memory, as data: the request, the bound that it met, and who has the memory.

use std::fmt::{self, Write};
use std::panic::Location;
use std::sync::Arc;

use super::amounts::Bytes;

/// Why an allocation found no memory, and who has the memory: the value of [`Error::shortage`](crate::Error::shortage).
///
/// ```
/// use gpucache::{cache_scope, device::Virtual, error::Bound, prelude::*};
///
/// let device = Virtual::new(8 << 20);
/// let kept = cache_scope!(weights, { device.zeros::<u8>(6 << 20)? });
/// let error = cache_scope!(step, { device.zeros::<f32>([1024, 1024]).unwrap_err() });
/// let shortage = error.shortage().unwrap();
/// assert_eq!((shortage.bytes, &*shortage.shape, &*shortage.dtype), (4 << 20, &[1024, 1024][..], "f32"));
/// assert_eq!(shortage.scope.as_deref(), Some("step"));
/// assert_eq!((shortage.bound, shortage.most_bytes), (Bound::Capacity, Some(8 << 20)));
/// assert_eq!(shortage.scopes[0].busy_bytes, 6 << 20); // of `weights`
/// println!("{:?} is entered at {:?}", shortage.scope, shortage.scope_site.map(ToString::to_string)); // file:line:column
/// assert_eq!(shortage.elsewhere_bytes, Some(0)); // nobody else has memory of a virtual device
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// The bytes of the request.
    pub bytes: u64,
    /// The shape of the array.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub dtype: String,
    /// The innermost scope, if there was one.
    pub scope: Option<Arc<str>>,
    /// Where the program names that scope: the macro, or the call of `Scope::new`. If several places share the name, the first one that
    /// the thread reached.
    pub scope_site: Option<&'static Location<'static>>,
    /// The number of the stream that requested the memory, as `{:?}` shows a `Stream`.
    pub stream: u64,
    /// The bound that refused the request.
    pub bound: Bound,
    /// How many bytes that bound allows, if it is known.
    pub most_bytes: Option<u64>,
    /// Bytes that the scope reserves on this thread, if its limit was met.
    pub scope_bytes: Option<u64>,
    /// Bytes of the device that this process reserves through this crate.
    pub held_bytes: u64,
    /// Bytes of all devices that this process reserves through this crate.
    pub process_bytes: u64,
    /// Bytes of the device that others reserve: other processes, other libraries of this process, its CUDA context, and the driver's pool.
    /// `None` if the device does not report them, and while a graph is captured on the stream.
    pub elsewhere_bytes: Option<u64>,
    /// Bytes of the device that scopes and placed arrays share: those of the device's range.
    pub reserved_bytes: u64,
    /// Bytes of the range that arrays of scopes use, or blocks of their plans.
    pub live_bytes: u64,
    /// Free bytes of the range.
    pub idle_bytes: u64,
    /// The longest free stretch of the range.
    pub longest_free_bytes: u64,
    /// Bytes of the device that this crate reserves outside of the range: arrays of no scope or with `recycle = "off"`, arrays registered with
    /// NCCL, and executables of graphs.
    pub outside_bytes: u64,
    /// Bytes of arrays that could leave for the host, if they were not fetched: guards keep them on the device.
    pub fetched_bytes: u64,
    /// Bytes of placed arrays that could leave for the host if the limit of host memory (`Device::set_host_limit`) allowed it.
    pub host_limited_bytes: u64,
    /// Bytes of placed arrays that stay on the device, as their placement is `Placement::Device`.
    pub device_placed_bytes: u64,
    /// The scopes that reserve most, each on one thread, the largest first.
    pub scopes: Vec<ScopeMemory>,
}

/// The bound that refused an allocation.
///
/// ```
/// assert_eq!(gpucache::error::Bound::default(), gpucache::error::Bound::Capacity);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bound {
    /// The device has no more memory, or no more addresses.
    #[default]
    Capacity,
    /// The limit of the device: `Device::set_limit`, or `GPUCACHE_LIMIT`.
    Limit,
    /// The limit of the process over all devices: `set_process_limit`.
    Process,
    /// The limit of the scope.
    Scope,
    /// The limit of host memory for the placed arrays of a device: `Device::set_host_limit`.
    Host,
}

/// The memory of a scope on one thread.
///
/// ```
/// use gpucache::{device::Virtual, prelude::*};
///
/// let device = Virtual::new(1 << 20);
/// assert!(device.zeros::<u8>(2 << 20).unwrap_err().shortage().unwrap().scopes.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeMemory {
    /// The name of the scope.
    pub scope: Arc<str>,
    /// Bytes that arrays use.
    pub busy_bytes: u64,
    /// Bytes that the scope keeps for its next allocations.
    pub idle_bytes: u64,
    /// Whether another thread is inside the scope, so that its idle bytes could not be taken.
    pub is_entered_elsewhere: bool,
}

/// As many scopes are named as leave the message short.
const MOST_SCOPES: usize = 5;

impl Shortage {
    /// The same with those of the scopes that hold most.
    pub(crate) fn held_by(mut self, mut scopes: Vec<ScopeMemory>) -> Shortage {
        let held = |one: &ScopeMemory| one.busy_bytes.saturating_add(one.idle_bytes);
        scopes.retain(|one| held(one) > 0);
        scopes.sort_by_key(|one| std::cmp::Reverse(held(one)));
        scopes.truncate(MOST_SCOPES);
        self.scopes = scopes;
        self
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::Capacity => "the device's memory",
            Bound::Limit => "the device's limit",
            Bound::Process => "the process's limit",
            Bound::Scope => "the scope's limit",
            Bound::Host => "the limit of host memory for placed arrays",
        })
    }
}

/// The bound and who has the memory, in a few lines of a screen's width. The error has the request.
impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_bound(f)?;
        let Shortage { reserved_bytes, live_bytes, idle_bytes, longest_free_bytes, .. } = *self;
        if reserved_bytes > 0 {
            write!(
                f,
                "\nscopes and placed arrays share {}: {} in arrays and plans, ",
                Bytes(reserved_bytes),
                Bytes(live_bytes)
            )?;
            write!(f, "{} idle, at most {} side by side", Bytes(idle_bytes), Bytes(longest_free_bytes))?;
        }
        for ScopeMemory { scope, busy_bytes, idle_bytes, is_entered_elsewhere } in &self.scopes {
            let inside = if *is_entered_elsewhere { "; another thread is inside" } else { "" };
            write!(f, "\n  `{}`: {} in use, {} idle{inside}", Short(scope), Bytes(*busy_bytes), Bytes(*idle_bytes))?;
        }
        self.write_arrays(f)?;
        write!(f, "\nrequested on stream {}", self.stream)?;
        self.scope_site.map_or(Ok(()), |site| write!(f, ", in the scope of {}", Short(&site.to_string())))
    }
}

impl Shortage {
    /// The arrays that have memory outside of scopes, and those that stay on the device, by the reason.
    fn write_arrays(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owners = [
            ("arrays of no scope or with `recycle = \"off\"`, and graphs, have", self.outside_bytes, ""),
            ("guards of fetched arrays keep", self.fetched_bytes, " on the device"),
            ("the limit of host memory keeps", self.host_limited_bytes, " of placed arrays on the device"),
            ("placed arrays with the placement `Device` have", self.device_placed_bytes, ""),
        ];
        let mut known = owners.into_iter().filter(|(_, bytes, _)| *bytes > 0);
        known.try_for_each(|(who, bytes, place)| write!(f, "\n{who} {}{place}", Bytes(bytes)))
    }

    /// The bound, and how much of it whom has. Each figure names its owner.
    fn write_bound(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, held) = (self.bound, Bytes(self.held_bytes));
        if let Some(most) = self.most_bytes {
            write!(f, "{bound} is {}", Bytes(most))?;
            match (bound, self.scope_bytes) {
                (Bound::Scope, Some(own)) => write!(f, "; the scope reserves {} on this thread", Bytes(own))?,
                (Bound::Process, _) => write!(f, "; gpucache reserves {} of all devices", Bytes(self.process_bytes))?,
                _ => {}
            }
            f.write_str("\n")?;
        }
        if bound == Bound::Host {
            return write!(f, "placed arrays of the device have {held} of host memory");
        }
        write!(f, "gpucache reserves {held} of the device in this process")?;
        let others = "are in use outside of gpucache";
        self.elsewhere_bytes.map_or(Ok(()), |bytes| write!(f, "; {} {others}", Bytes(bytes)))
    }
}

/// The end of a text, which tells most of a path or a name, in so many characters of one line that a line with it fits a screen.
pub struct Short<'a>(pub &'a str);

const LONGEST_TEXT: usize = 51;

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left_out = self.0.chars().count().saturating_sub(LONGEST_TEXT);
        let (dots, left_out) = if left_out == 0 { ("", 0) } else { ("...", left_out + 3) };
        f.write_str(dots)?;
        // A name may have lines.
        let in_line = |char: char| if char.is_control() { ' ' } else { char };
        self.0.chars().skip(left_out).map(in_line).try_for_each(|char| f.write_char(char))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_fits_a_screen() {
        let name: Arc<str> = "näme\n".repeat(100).into();
        let shortage = Shortage {
            scope_site: Some(Location::caller()),
            stream: u64::MAX,
            most_bytes: Some(u64::MAX - 1),
            held_bytes: u64::MAX - 1,
            elsewhere_bytes: Some(u64::MAX - 1),
            reserved_bytes: u64::MAX - 1,
            live_bytes: u64::MAX - 1,
            idle_bytes: u64::MAX - 1,
            longest_free_bytes: u64::MAX - 1,
            outside_bytes: u64::MAX - 1,
            fetched_bytes: u64::MAX - 1,
            host_limited_bytes: u64::MAX - 1,
            device_placed_bytes: u64::MAX - 1,
            ..Shortage::default()
        };
        let most = 1023 << 40;
        let one = ScopeMemory { scope: name, busy_bytes: most, idle_bytes: most, is_entered_elsewhere: true };
        let text = shortage.held_by(vec![one; 9]).to_string();
        assert!(text.lines().count() <= 20, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        assert!(text.contains("`...") && text.contains("shortage.rs:"), "{text}");
        assert_eq!(Short(&"a".repeat(LONGEST_TEXT)).to_string(), "a".repeat(LONGEST_TEXT));
        assert_eq!(Short(&"a".repeat(LONGEST_TEXT + 1)).to_string().len(), LONGEST_TEXT);
    }
}
