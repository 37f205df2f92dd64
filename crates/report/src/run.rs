//! A run: the events of a trace, from a file or from the program itself.

pub(crate) mod file;

use std::collections::BTreeMap;
use std::path::Path;

use gpucache::trace::{Action, ServedBy, Trace, TraceEvent};

use crate::error::Error;
use crate::text;

/// The kind of an event.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Op, Run};
///
/// trace::start(1000);
/// cache_scope!(decode, { drop(Host::new().zeros::<f32>([2, 3])?) });
/// let run = Run::from(&trace::stop());
/// let ops: Vec<Op> = run.events.iter().map(|event| event.op).collect();
/// assert_eq!(ops, [Op::Enter, Op::Allocate, Op::Free, Op::Leave]);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// An array got memory.
    Allocate,
    /// An array was dropped.
    Free,
    /// A scope was entered.
    Enter,
    /// A scope was left.
    Leave,
    /// An allocation found no memory.
    Short,
}

/// Something that happened to memory or to a scope: a line of the file.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::Run;
///
/// trace::start(1000);
/// cache_scope!(decode, { drop(Host::new().zeros::<f32>([2, 3])?) });
/// let run = Run::from(&trace::stop());
/// let allocated = &run.events[1];
/// assert_eq!((&*allocated.scope, &*allocated.dtype, &*allocated.shape), ("decode", "f32", "2x3"));
/// assert_eq!((allocated.bytes, &*allocated.served), (24, "range"));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kind of the event.
    pub op: Op,
    /// Identifies an allocation and its free; 0 for other events.
    pub id: u64,
    /// The bytes of the array; for a shortage, the bytes of the request; 0 for a scope.
    pub bytes: u64,
    /// The number of the stream.
    pub stream: u64,
    /// Nanoseconds since the trace began.
    pub time_ns: u64,
    /// The thread, counted from 0.
    pub thread: u64,
    /// The scope that was entered or left; else the innermost one of the thread. Empty for none.
    pub scope: String,
    /// The part that served an allocation: `plan`, `list`, `range` or `device`; empty for other events.
    pub served: String,
    /// The address of the array; 0 without memory.
    pub address: u64,
    /// The type of the elements of an allocated array, such as `f32`.
    pub dtype: String,
    /// The shape of an allocated array, such as `2x3`.
    pub shape: String,
    /// The source line that allocated an array, as `file:line:column`. Empty for other events, and where it is not known.
    pub site: String,
    /// The source line that names the scope, as `file:line:column`.
    pub scope_site: String,
    /// The callers of `site`, the innermost first, one in each line. Empty unless the program has gpucache's feature `backtrace`.
    pub stack: String,
    /// The number of the device, to which the address belongs; 0 for a scope, and in older files.
    pub device: u64,
}

/// The reserved memory of a device from some event on.
///
/// ```
/// use gpucache::{prelude::*, trace};
/// use gpucache_report::Run;
///
/// trace::start(1000);
/// drop(Host::new().zeros::<u8>(1000)?); // of no scope
/// let run = Run::from(&trace::stop());
/// assert!(run.reserved[0].before == 0 && run.reserved[0].bytes >= 1000);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The place of the next event among the events of the run.
    pub before: usize,
    /// Nanoseconds since the trace began.
    pub time_ns: u64,
    /// The device by number.
    pub device: u64,
    /// The bytes that are reserved from then on.
    pub bytes: u64,
}

/// The events of a run, in order.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, perfetto};
///
/// trace::start(1000);
/// cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
/// let run = Run::from(&trace::stop());
/// assert_eq!((run.events.len(), run.lost), (4, 0));
/// let mut file = Vec::new();
/// perfetto::write(&run, &mut file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The events, in order.
    pub events: Vec<Event>,
    /// The changes of reserved memory, in order; empty in older files.
    pub reserved: Vec<Reserved>,
    /// Events that the trace had no room for.
    pub lost: u64,
    /// The size of the pages of each device, by its number; 0 for a device without pages. Empty in older files.
    pub page_bytes: BTreeMap<u64, u64>,
}

impl Run {
    /// Reads a file that `GPUCACHE_TRACE` or [`Trace::write_csv`] wrote, packed by gzip or not.
    ///
    /// # Errors
    /// The file cannot be read, is cut off, or is no trace of gpucache.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*, trace};
    /// use gpucache_report::Run;
    ///
    /// trace::start(1000);
    /// cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
    /// let (trace, path) = (trace::stop(), std::env::temp_dir().join("gpucache-report-run.csv"));
    /// trace.write_csv(std::fs::File::create(&path)?)?;
    /// assert_eq!(Run::read(&path)?, Run::from(&trace));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<Run, Error> {
        text::read(path.as_ref(), file::parse)
    }
}

/// The same run that the file of the trace gives.
impl From<&Trace> for Run {
    fn from(trace: &Trace) -> Run {
        let pages = trace.devices.iter().map(|known| (known.device.into(), known.page_bytes));
        let mut run = Run { lost: trace.lost, page_bytes: pages.collect(), ..Run::default() };
        for told in &trace.events {
            let (before, time_ns) = (run.events.len(), nanoseconds(told));
            match told.action {
                Action::Reserved => {
                    run.reserved.push(Reserved { before, time_ns, device: told.device.into(), bytes: told.bytes });
                }
                _ => run.events.extend(event(told)),
            }
        }
        run
    }
}

fn nanoseconds(event: &TraceEvent) -> u64 {
    u64::try_from(event.time.as_nanos()).unwrap_or(u64::MAX)
}

/// `None` for an action without a kind here.
fn event(event: &TraceEvent) -> Option<Event> {
    let op = match event.action {
        Action::Allocated => Op::Allocate,
        Action::Freed => Op::Free,
        Action::Entered => Op::Enter,
        Action::Left => Op::Leave,
        Action::Short => Op::Short,
        _ => return None,
    };
    let shape: Vec<String> = event.shape.iter().map(usize::to_string).collect();
    Some(Event {
        op,
        id: event.id,
        bytes: event.bytes,
        stream: event.stream,
        time_ns: nanoseconds(event),
        thread: event.thread.into(),
        scope: event.scope.as_deref().unwrap_or_default().to_owned(),
        served: event.served_by.map_or("", served).to_owned(),
        address: event.address,
        dtype: event.dtype.to_owned(),
        shape: shape.join("x"),
        site: event.site.map(ToString::to_string).unwrap_or_default(),
        scope_site: event.scope_site.map(ToString::to_string).unwrap_or_default(),
        stack: event.stack.as_deref().unwrap_or_default().to_owned(),
        device: event.device.into(),
    })
}

/// The word of the file.
fn served(by: ServedBy) -> &'static str {
    match by {
        ServedBy::Plan => "plan",
        ServedBy::List => "list",
        ServedBy::Range => "range",
        _ => "device",
    }
}

#[cfg(test)]
impl Run {
    /// The largest sum of bytes that were alive at once.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let (mut live, mut peak) = (0, 0);
        for event in &self.events {
            match event.op {
                Op::Allocate => live += event.bytes,
                Op::Free => live -= event.bytes,
                Op::Enter | Op::Leave | Op::Short => {}
            }
            peak = peak.max(live);
        }
        peak
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;

    /// Two nested scopes, an array outside them, a shortage, and an array that lives until the end.
    pub(crate) const EXAMPLE: &str = "\
step,op,id,bytes,stream,time_ns,thread,scope,served,address,dtype,shape,site,device,scope_site,stack
0,device,0,2097152,0,0,0,,,0x0,,,,7,,
0,a,1,4096,1,1000,0,,device,0x200000,f32,32x32,src/main.rs:3:9,7,,
1,enter,0,0,0,2000,0,train%2C step,,0x0,,,,0,src/main.rs:7:5,
1,a,2,1000,1,2500,0,train%2C step,plan,0x600000,u8,1000,src/main.rs:8:9,7,src/main.rs:7:5,layer at src/main.rs:8:9%0Amain
1,enter,0,0,0,2600,0,inner,,0x0,,,,0,src/main.rs:9:9,
1,reserve,0,4194304,0,2650,0,inner,,0x0,,,,7,src/main.rs:9:9,
1,a,3,2097152,2,2700,0,inner,range,0x700000,f64,262144,src/main.rs:10:9,7,src/main.rs:9:9,
1,short,0,99999999,1,2800,0,inner,,0x0,u8,99999999,src/main.rs:11:9,7,src/main.rs:9:9,
1,leave,0,0,0,3000,0,inner,,0x0,,,,0,src/main.rs:9:9,
1,f,2,1000,1,3500,0,train%2C step,,0x600000,,,,7,src/main.rs:7:5,
1,leave,0,0,0,4000,0,train%2C step,,0x0,,,,0,src/main.rs:7:5,
1,f,3,2097152,2,5000,1,,,0x700000,,,,7,,
1,lost,0,12,0,0,0,,,0x0,,,,0,,
";

    pub(crate) fn example() -> Run {
        file::parse(EXAMPLE).unwrap()
    }

    #[test]
    fn a_file_is_read() {
        let run = example();
        assert_eq!((run.events.len(), run.lost, run.peak_bytes()), (10, 12, 4096 + 1000 + 2_097_152));
        let event = &run.events[2];
        assert_eq!((event.op, event.address, &*event.scope), (Op::Allocate, 0x0060_0000, "train, step"));
        assert_eq!(run.reserved, [Reserved { before: 4, time_ns: 2650, device: 7, bytes: 4_194_304 }]);
        assert_eq!((&*event.site, &*event.scope_site), ("src/main.rs:8:9", "src/main.rs:7:5"));
        assert_eq!((&*event.stack, run.page_bytes[&7]), ("layer at src/main.rs:8:9\nmain", 2 << 20));
        assert_eq!(file::parse(&EXAMPLE.replace("site,device", "site,other")).unwrap().reserved[0].device, 0);
    }

    /// Older files have only the line of the scope.
    #[test]
    fn a_file_without_lines_of_arrays_is_read() {
        let old = "step,op,id,bytes,stream,time_ns,thread,scope,served,address,dtype,shape,site,device\n\
                   1,a,2,1000,1,2500,0,step,plan,0x600000,u8,1000,src/main.rs:7:5,7\n";
        let run = file::parse(old).unwrap();
        assert_eq!((&*run.events[0].site, &*run.events[0].scope_site), ("", "src/main.rs:7:5"));
        assert!(run.page_bytes.is_empty());
    }
}
