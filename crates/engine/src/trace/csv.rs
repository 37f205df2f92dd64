//! The file of a trace: lines of comma-separated fields. The program `replay` needs the first five.

use std::io::{self, Write};

use super::event::{Action, ServedBy, TraceDevice, TraceEvent};
use super::whole::Trace;

const HEADER: &str =
    "step,op,id,bytes,stream,time_ns,thread,scope,served,address,dtype,shape,site,device,scope_site,stack";

impl Trace {
    /// Writes the trace as text with comma-separated fields, one line for each event.
    ///
    /// | field | meaning |
    /// |---|---|
    /// | `step` | how many times a thread has entered a scope from outside all scopes |
    /// | `op` | `a` (allocated), `f` (freed), `enter` and `leave` (of a scope), `short` (no memory found), `reserve` (the reserved memory of a device changed); the first lines are `device`, one for each device; if events were lost, the last line is `lost` |
    /// | `id` | identifies an allocation and its free; 0 for other events |
    /// | `bytes` | the size of the array; for `reserve`, the reserved bytes from then on; for `device`, the size of its pages; for `lost`, the number of lost events |
    /// | `stream`, `thread` | by number |
    /// | `time_ns` | nanoseconds since the trace began: [`TraceEvent::time`] |
    /// | `scope` | the scope that was entered or left, or the innermost one; empty if there is none, and two quotation marks if its name is empty |
    /// | `served` | the part that served an allocation: `plan`, `list`, `range` or `device` |
    /// | `address` | `0x` and hexadecimal digits |
    /// | `dtype`, `shape` | of an allocation, such as `f32` and `2x3` |
    /// | `site` | the source line that allocated the array |
    /// | `device` | by number: [`TraceEvent::device`] |
    /// | `scope_site` | where the scope is named in the program |
    /// | `stack` | the callers of that source line, with the feature `backtrace` |
    ///
    /// A `%`, a comma, a quotation mark or a control character is written as `%` and two hexadecimal digits for each of its bytes.
    ///
    /// # Errors
    /// Errors of the writer.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*, trace};
    ///
    /// trace::start(1000);
    /// cache_scope!("encode, decode", { drop(Host::new().zeros::<f32>([2, 3])?) });
    /// let mut file = Vec::new();
    /// trace::stop().write_csv(&mut file)?;
    /// let file = String::from_utf8(file)?;
    /// assert_eq!(file.lines().count(), 7);
    /// assert!(file.lines().nth(4).unwrap().starts_with("1,a,1,24,"), "{file}");
    /// assert!(file.contains(",encode%2C decode,range,0x") && file.contains(",f32,2x3,"), "{file}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_csv(&self, mut to: impl Write) -> io::Result<()> {
        writeln!(to, "{HEADER}")?;
        for TraceDevice { device, page_bytes } in &self.devices {
            writeln!(to, "0,device,0,{page_bytes},0,0,0,,,0x0,,,,{device},,")?;
        }
        let (mut step, mut depths) = (0, Vec::new());
        for event in &self.events {
            step += u64::from(begins_step(event, &mut depths));
            line(&mut to, step, event)?;
        }
        if self.lost > 0 {
            writeln!(to, "{},lost,0,{},0,0,0,,,0x0,,,,0,,", step, self.lost)?;
        }
        to.flush()
    }
}

fn line(to: &mut impl Write, step: u64, event: &TraceEvent) -> io::Result<()> {
    let TraceEvent { id, bytes, stream, thread, address, .. } = *event;
    write!(to, "{step},{},{id},{bytes},{stream},{},{thread},", word(event.action), event.time.as_nanos())?;
    write!(to, "{},", escaped(event.scope.as_deref().unwrap_or_default()))?;
    write!(to, "{},{address:#x},", event.served_by.map_or("", ServedBy::word))?;
    let shape: Vec<String> = event.shape.iter().map(usize::to_string).collect();
    let [site, scope_site] =
        [event.site, event.scope_site].map(|site| site.map(ToString::to_string).unwrap_or_default());
    write!(to, "{},{},{},{},", escaped(event.dtype), shape.join("x"), escaped(&site), event.device)?;
    writeln!(to, "{},{}", escaped(&scope_site), escaped(event.stack.as_deref().unwrap_or_default()))
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Allocated => "a",
        Action::Freed => "f",
        Action::Entered => "enter",
        Action::Left => "leave",
        Action::Short => "short",
        Action::Reserved => "reserve",
    }
}

fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || matches!(letter, '%' | ',' | '"') {
            let mut bytes = [0; 4];
            letter.encode_utf8(&mut bytes).bytes().for_each(|byte| plain.push_str(&format!("%{byte:02X}")));
        } else {
            plain.push(letter);
        }
    }
    plain
}

/// Whether a thread enters a scope from outside all scopes. `depths` has the number of scopes that each thread is in.
fn begins_step(event: &TraceEvent, depths: &mut Vec<usize>) -> bool {
    let thread = event.thread as usize;
    if depths.len() <= thread {
        depths.resize(thread + 1, 0);
    }
    let depth = &mut depths[thread];
    let before = *depth;
    match event.action {
        Action::Entered => *depth += 1,
        // A scope that was entered before the trace began may be left in it.
        Action::Left => *depth = depth.saturating_sub(1),
        Action::Allocated | Action::Freed | Action::Short | Action::Reserved => {}
    }
    event.action == Action::Entered && before == 0
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_stay_in_their_field() {
        assert_eq!(escaped("plain::näme 7"), "plain::näme 7");
        assert_eq!(escaped("a,b\"c\n%\u{85}"), "a%2Cb%22c%0A%25%C2%85");
    }
}
