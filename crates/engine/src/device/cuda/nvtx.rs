//! NVTX ranges: what Nsight and its like show of a thread, each under its name.
//!
//! The library is looked for once, at run time: where there is none, there are no ranges. While no tool listens, its functions
//! return at once. cudarc's own way to it does not know what it is called since CUDA 12, and panics where it is not found.
//!
//! The library ends the innermost range of a thread, whichever that is. Guards may go in any order, so that the ranges within one
//! that ends are ended with it and begun anew. Where many lie within, that waits until enough of them have ended, so that each end
//! costs a bounded number of calls on average, however many ranges are open.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;

use libloading::Library;

use crate::base::sync::OnceLock;

/// What the library is called: since CUDA 12, and before that.
const LIBRARY: [&str; 5] =
    ["libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1", "nvtx3interop.dll", "nvToolsExt64_1.dll"];

/// A text as C has it: the address of bytes that end with a zero, and stay as they are for `'a`.
#[repr(transparent)]
struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

type Push = extern "C" fn(Text<'_>) -> c_int;
type Pop = extern "C" fn() -> c_int;

/// The functions of the library. Both answer how deep the range lies, or a negative number where no tool listens.
#[derive(Clone, Copy)]
struct Nvtx {
    push: Push,
    pop: Pop,
}

/// The ranges that a thread is in. Room for names that was there once is kept, so that a range needs no memory of its own.
#[derive(Default)]
struct Open {
    /// All names, each with the zero that ends it.
    names: Vec<u8>,
    /// The innermost one last, which has not ended.
    ranges: Vec<Shown>,
    next: u64,
    /// Ranges that have ended and are still shown, and the place of the outermost of them.
    ended: usize,
    outermost_ended: usize,
}

/// A range that the library shows.
#[derive(Clone, Copy)]
struct Shown {
    number: u64,
    /// Where its name begins.
    name: usize,
    has_ended: bool,
}

/// An end may have so many ranges begun anew that lie within.
const ANEW: usize = 16;

/// A range of the calling thread, until it is dropped.
#[derive(Debug)]
pub struct Range {
    number: u64,
    this_thread: PhantomData<*const ()>,
}

thread_local! {
    static OPEN: RefCell<Open> = RefCell::default();
}

impl Nvtx {
    /// The library of this machine, if it has one.
    #[inline]
    fn get() -> Option<&'static Nvtx> {
        static NVTX: OnceLock<Option<Nvtx>> = OnceLock::new();
        NVTX.get_or_init(|| Nvtx::load(&LIBRARY)).as_ref()
    }

    /// The first of these libraries that is there and has the functions.
    #[cold]
    fn load(names: &[&str]) -> Option<Nvtx> {
        names.iter().find_map(|name| {
            // SAFETY: loading runs the initialisers of NVIDIA's library, which are made to be run by any process at any time. Its
            // header has declared functions of these names and types since its first version: the one reads a text, during the
            // call alone, and a `Text` always is one; the other takes nothing. Any thread may call them at any time. Their
            // addresses are good for ever, as a library that has them is never unloaded.
            unsafe {
                let library = Library::new(*name).ok()?;
                let push = *library.get::<Push>(b"nvtxRangePushA\0").ok()?;
                let pop = *library.get::<Pop>(b"nvtxRangePop\0").ok()?;
                std::mem::forget(library);
                Some(Nvtx { push, pop })
            }
        })
    }

    fn push(self, name: &CStr) {
        (self.push)(Text(name.as_ptr(), PhantomData));
    }

    fn pop(self) {
        (self.pop)();
    }
}

impl Open {
    /// Begins a range, within those that are open. C reads a name up to the first zero in it.
    fn begin(&mut self, nvtx: Nvtx, name: &str) -> u64 {
        let (number, start) = (self.next, self.names.len());
        self.next += 1;
        self.names.extend(name.bytes().take_while(|&byte| byte != 0));
        self.names.push(0);
        self.ranges.push(Shown { number, name: start, has_ended: false });
        self.push_from(nvtx, self.ranges.len() - 1);
        number
    }

    /// Ends a range, wherever it lies.
    fn end(&mut self, nvtx: Nvtx, number: u64) {
        let Ok(place) = self.ranges.binary_search_by_key(&number, |range| range.number) else { return };
        if std::mem::replace(&mut self.ranges[place].has_ended, true) {
            return;
        }
        self.outermost_ended = if self.ended > 0 { self.outermost_ended.min(place) } else { place };
        self.ended += 1;
        self.pop_ended(nvtx);
        if self.ended > 0 && self.ranges.len() - self.outermost_ended <= self.ended.saturating_mul(ANEW + 1) {
            self.begin_anew(nvtx);
        }
    }

    /// Ends the innermost ranges as far as they have ended.
    fn pop_ended(&mut self, nvtx: Nvtx) {
        while let Some(range) = self.ranges.pop_if(|range| range.has_ended) {
            nvtx.pop();
            self.names.truncate(range.name);
            self.ended -= 1;
        }
    }

    /// Ends all ranges up to the outermost one that has ended, and begins those anew that have not.
    fn begin_anew(&mut self, nvtx: Nvtx) {
        let first = self.outermost_ended;
        self.ranges[first..].iter().for_each(|_| nvtx.pop());
        let (mut kept, mut end) = (first, self.ranges[first].name);
        for place in first..self.ranges.len() {
            let Shown { number, name, has_ended } = self.ranges[place];
            if has_ended {
                continue;
            }
            let name_end = self.ranges.get(place + 1).map_or(self.names.len(), |next| next.name);
            self.names.copy_within(name..name_end, end);
            self.ranges[kept] = Shown { number, name: end, has_ended };
            (kept, end) = (kept + 1, end + name_end - name);
        }
        self.ranges.truncate(kept);
        self.names.truncate(end);
        self.ended = 0;
        self.push_from(nvtx, first);
    }

    /// Begins what lies within, from this place on.
    fn push_from(&self, nvtx: Nvtx, place: usize) {
        let names = self.ranges[place..].iter().map(|range| CStr::from_bytes_until_nul(&self.names[range.name..]));
        names.flatten().for_each(|name| nvtx.push(name));
    }
}

impl Range {
    /// Whether there are ranges: the library is there.
    #[inline]
    pub fn is_there() -> bool {
        Nvtx::get().is_some()
    }

    /// Begins a range; none without the library, nor on a thread that ends.
    #[inline]
    pub fn begin(name: &str) -> Option<Range> {
        let nvtx = Nvtx::get()?;
        let number = with_open(|open| open.begin(*nvtx, name))?;
        Some(Range { number, this_thread: PhantomData })
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let Some(nvtx) = Nvtx::get() {
            with_open(|open| open.end(*nvtx, self.number));
        }
    }
}

fn with_open<R>(act: impl FnOnce(&mut Open) -> R) -> Option<R> {
    OPEN.try_with(|open| open.try_borrow_mut().ok().map(|mut open| act(&mut open))).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static SEEN: RefCell<Vec<String>> = RefCell::default();
    }

    extern "C" fn push(name: Text<'_>) -> c_int {
        // SAFETY: a `Text` is a text.
        let name = unsafe { CStr::from_ptr(name.0) }.to_string_lossy().into_owned();
        SEEN.with_borrow_mut(|seen| seen.push(name));
        0
    }

    extern "C" fn pop() -> c_int {
        SEEN.with_borrow_mut(|seen| seen.push("-".into()));
        0
    }

    const TOOL: Nvtx = Nvtx { push, pop };

    fn seen() -> String {
        SEEN.take().join(" ")
    }

    #[test]
    fn a_library_that_is_missing_or_another_one_is_none() {
        assert!(Nvtx::load(&["libgpucache_no_such_library.so.1"]).is_none());
        assert!(Nvtx::load(&["libgpucache_no_such_library.so.1", "libc.so.6"]).is_none(), "it has no such functions");
    }

    #[test]
    fn ranges_end_in_any_order() {
        let mut open = Open::default();
        let [first, second, third] = ["step", "attention\0of the second layer", ""].map(|name| open.begin(TOOL, name));
        assert_eq!(seen(), "step attention ");
        open.end(TOOL, second);
        assert_eq!(seen(), "- - ", "the innermost one has no name, and is begun anew");
        let fourth = open.begin(TOOL, "mlp");
        open.end(TOOL, first);
        assert_eq!(seen(), "mlp - - -  mlp");
        open.end(TOOL, first);
        [fourth, third].into_iter().for_each(|range| open.end(TOOL, range));
        assert_eq!(seen(), "- -");
        assert!(open.names.is_empty() && open.ranges.is_empty());
    }

    /// The open ranges, as a tool sees them.
    fn shown(calls: &[String]) -> Vec<&str> {
        let mut open = Vec::new();
        for call in calls {
            if call == "-" {
                open.pop();
            } else {
                open.push(call.as_str());
            }
        }
        open
    }

    /// Ranges of which 5,000 are open at most, ended in any order: a bounded number of calls for each, and hardly any that has ended
    /// is still shown.
    #[test]
    fn an_end_costs_a_bounded_number_of_calls() {
        type Choose = fn(usize, usize) -> usize;
        let orders: [Choose; 3] = [|_, _| 0, |step, count| step * 7919 % count, |_, count| count - 1];
        for choose in orders {
            let mut open = Open::default();
            let mut alive: Vec<u64> = (0..5_000).map(|number| open.begin(TOOL, &number.to_string())).collect();
            for step in 0..5_000 {
                let ended = alive.remove(choose(step, alive.len()));
                open.end(TOOL, ended);
                if step % 2 == 0 {
                    alive.push(open.begin(TOOL, &open.next.to_string()));
                }
                assert!((open.ranges.len() - alive.len()) * ANEW <= open.ranges.len());
            }
            let calls = SEEN.take();
            assert!(calls.len() < 5_000 * (2 * ANEW + 6), "{} calls", calls.len());
            let names: Vec<String> = alive.iter().map(u64::to_string).collect();
            let seen = shown(&calls);
            assert_eq!(seen.len(), open.ranges.len());
            let seen: Vec<&str> = seen.into_iter().filter(|name| names.iter().any(|alive| alive == name)).collect();
            assert_eq!(seen, names);
            alive.into_iter().rev().for_each(|range| open.end(TOOL, range));
            assert!(open.names.is_empty() && open.ranges.is_empty());
            SEEN.take();
        }
    }

    #[test]
    fn a_range_needs_memory_once() {
        let mut open = Open::default();
        let range = open.begin(TOOL, "step");
        open.end(TOOL, range);
        let before = (open.names.as_ptr(), open.names.capacity());
        for _ in 0..100 {
            let range = open.begin(TOOL, "step");
            open.end(TOOL, range);
        }
        assert_eq!((open.names.as_ptr(), open.names.capacity()), before);
    }
}
