//! The writing side of a thread: its ring, its known numbers of names, and the clock, which it reads only now and then.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;

use super::event::{Action, ServedBy};
use super::packed::{MOST_SCOPES, MOST_SITES, Packed, Shape};
use super::ring::Pen;
use super::session::{self, Site, Title};
use super::stack;

/// The number of events between two readings of the clock. A reading takes longer than all other work for an event.
const LOOK_IN: u8 = 64;

/// An allocation that was served, or that found no memory.
pub(crate) struct Allocation<'a> {
    pub(crate) dtype: &'static str,
    pub(crate) dims: &'a [usize],
    pub(crate) bytes: usize,
    /// 0 if the allocation found no memory.
    pub(crate) address: u64,
    pub(crate) stream: u64,
    /// The number of the stream's device.
    pub(crate) device: u64,
    pub(crate) served_by: Option<ServedBy>,
    /// The source line that allocates, if it is known.
    pub(crate) site: Option<&'static Location<'static>>,
    /// The size of the device's pages; 0 if it has none.
    pub(crate) page_bytes: u64,
}

struct Writer {
    session: u64,
    began: Instant,
    pen: Pen,
    /// The clock at the last reading. Below: the number of events until the next reading.
    time: u64,
    look_in: u8,
    /// The number of the innermost scope.
    scope: u32,
    scopes: HashMap<Arc<str>, u32>,
    dtypes: Vec<(&'static str, u16)>,
    /// The numbers of source lines, by their addresses.
    sites: HashMap<*const Location<'static>, u32>,
    /// A bit for each device that the session knows, by the last bits of its number.
    devices: [u64; 4],
}

thread_local! {
    static WRITER: RefCell<Option<Writer>> = const { RefCell::new(None) };
}

/// Runs `act` on the thread's side of the trace, if a trace is on. If the thread is ending and has no such side any more, counts
/// the event as unwritten.
#[inline(always)]
fn write(act: impl FnOnce(&mut Writer)) {
    if !with(act) {
        session::note_unwritten();
    }
}

/// As [`write()`]. Returns false if the thread is ending.
#[inline(always)]
fn with(act: impl FnOnce(&mut Writer)) -> bool {
    let there = WRITER.try_with(|writer| {
        let Ok(mut writer) = writer.try_borrow_mut() else { return };
        if writer.as_ref().is_none_or(|writer| writer.session != session::number()) {
            rejoin(&mut writer);
        }
        if let Some(writer) = &mut *writer {
            act(writer);
        }
    });
    there.is_ok()
}

/// Joins the session that is on, if there is one.
#[cold]
#[inline(never)]
fn rejoin(writer: &mut Option<Writer>) {
    *writer = Writer::join();
}

/// Records that an array got memory, or that none was found.
#[inline]
pub(crate) fn allocated(allocation: &Allocation<'_>) {
    write(|writer| {
        let Allocation { dtype, dims, bytes, address, stream, device, served_by, site, page_bytes } = *allocation;
        let action = if served_by.is_some() { Action::Allocated } else { Action::Short };
        let (time, dtype, scope) = (writer.time(), writer.dtype(dtype), writer.scope);
        let (bytes, device, shape) = (bytes as u64, device as u8, Shape::new(dims));
        let site = site.map_or(0, |site| writer.site(site));
        writer.note_device(device, page_bytes);
        let event = Packed { time, action, served_by, dtype, scope, device, address, bytes, stream, site, shape };
        writer.pen.push(&event);
    });
}

/// Records that an array was dropped.
#[inline]
pub(crate) fn freed(address: u64, device: u64) {
    write(|writer| {
        let (time, scope) = (writer.time(), writer.scope);
        writer.pen.push(&Packed { time, action: Action::Freed, scope, device: device as u8, address, ..Packed::BARE });
    });
}

/// Records that a scope was entered or left.
pub(crate) fn turned(action: Action, title: &Title) {
    write(|writer| {
        let (time, scope) = (writer.look(), writer.number_of(title));
        writer.pen.push(&Packed { time, action, scope, ..Packed::BARE });
    });
}

/// Records that `bytes` bytes are reserved from a device from now on.
#[cold]
pub(crate) fn reserved(bytes: u64, device: u64, page_bytes: u64) {
    write(|writer| {
        let (time, scope) = (writer.look(), writer.scope);
        writer.note_device(device as u8, page_bytes);
        let event = Packed { time, action: Action::Reserved, scope, bytes, device: device as u8, ..Packed::BARE };
        writer.pen.push(&event);
    });
}

/// Notes the thread's innermost scope from now on, or that there is none.
pub(crate) fn inside(title: Option<&Title>) {
    // A thread that is ending is inside no scope.
    let _ = with(|writer| writer.scope = title.map_or(0, |title| writer.number_of(title)));
}

/// Has the thread's next event read the clock, since another thread may have made the event before it.
pub(crate) fn read_clock_next() {
    let _ = with(|writer| writer.look_in = 0);
}

impl Writer {
    fn join() -> Option<Writer> {
        let (session, began, pen) = session::join()?;
        let (scopes, dtypes, sites, devices) = (HashMap::new(), Vec::new(), HashMap::new(), [0; 4]);
        Some(Writer { session, began, pen, time: 0, look_in: 0, scope: 0, scopes, dtypes, sites, devices })
    }

    /// Tells the session of a device, once.
    #[inline(always)]
    fn note_device(&mut self, device: u8, page_bytes: u64) {
        let (known, bit) = (&mut self.devices[usize::from(device) / 64], 1 << (device % 64));
        if *known & bit == 0 {
            *known |= bit;
            session::device(self.session, device, page_bytes);
        }
    }

    #[inline(always)]
    fn time(&mut self) -> u64 {
        match self.look_in {
            0 => self.look(),
            _ => {
                self.look_in -= 1;
                self.time
            }
        }
    }

    /// Reads the clock.
    #[cold]
    fn look(&mut self) -> u64 {
        self.look_in = LOOK_IN - 1;
        self.time = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.time
    }

    #[inline(always)]
    fn dtype(&mut self, name: &'static str) -> u16 {
        match self.dtypes.iter().find(|known| std::ptr::eq(known.0, name)) {
            Some((_, number)) => *number,
            None => self.learn_dtype(name),
        }
    }

    #[cold]
    fn learn_dtype(&mut self, name: &'static str) -> u16 {
        let number =
            session::number_of(self.session, u16::MAX.into(), |session| session.dtypes.number_of(&name)) as u16;
        self.dtypes.push((name, number));
        number
    }

    /// The number of a source line. With the feature `backtrace` lines with other callers have other numbers.
    #[inline(always)]
    fn site(&mut self, site: &'static Location<'static>) -> u32 {
        let session = self.session;
        let ask = |site: &Site| session::number_of(session, MOST_SITES, |session| session.sites.number_of(site));
        match cfg!(feature = "backtrace") {
            true => ask(&(site, stack::callers(site))),
            false => *self.sites.entry(std::ptr::from_ref(site)).or_insert_with(|| ask(&(site, None))),
        }
    }

    fn number_of(&mut self, title: &Title) -> u32 {
        if let Some(number) = self.scopes.get(&title.0) {
            return *number;
        }
        let number = session::number_of(self.session, MOST_SCOPES, |session| session.scopes.number_of(title));
        self.scopes.insert(title.0.clone(), number);
        number
    }
}
