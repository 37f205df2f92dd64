//! CSV files of buffers: finds columns by name, and reports errors with file and line.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use gpucache::plan::Buffer;

/// The rows of a file, as text and as buffers.
pub(crate) struct Table {
    header: String,
    rows: Vec<String>,
    pub buffers: Vec<Buffer>,
}

/// The indices of the columns.
struct Columns {
    lower: usize,
    upper: usize,
    size: usize,
    count: usize,
}

impl Table {
    /// Reads a file. With `inclusive`, a buffer still lives at its upper time.
    pub(crate) fn read(path: &Path, inclusive: bool) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("{}: cannot be opened", path.display()))?;
        let reader: Box<dyn Read> = if zipped(path) { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
        let mut lines = (1..).zip(BufReader::new(reader).lines());
        let at = |line: usize| format!("{}:{line}", path.display());
        let header = match lines.next() {
            Some((line, text)) => text.with_context(|| format!("{}: cannot be read", at(line)))?,
            None => String::new(),
        };
        let columns = Columns::find(&header).with_context(|| at(1))?;
        let mut table = Self { header: header.trim_end().to_owned(), rows: Vec::new(), buffers: Vec::new() };
        for (line, text) in lines {
            let text = text.with_context(|| format!("{}: cannot be read", at(line)))?;
            if !text.trim().is_empty() {
                table.buffers.push(columns.buffer(&text, inclusive).with_context(|| at(line))?);
                table.rows.push(text.trim_end().to_owned());
            }
        }
        Ok(table)
    }

    /// Writes the rows with an offset column, under the same file name in `dir`.
    pub(crate) fn write(&self, dir: &Path, path: &Path, offsets: &[u64]) -> Result<()> {
        let target = dir.join(path.file_name().with_context(|| format!("{}: has no file name", path.display()))?);
        let failed = || format!("{}: cannot be written", target.display());
        let mut text = format!("{},offset\n", self.header);
        for (row, offset) in self.rows.iter().zip(offsets) {
            text += &format!("{row},{offset}\n");
        }
        fs::create_dir_all(dir).with_context(|| format!("{}: cannot be created", dir.display()))?;
        let same = fs::canonicalize(&target).ok().is_some_and(|t| fs::canonicalize(path).is_ok_and(|p| p == t));
        ensure!(!same, "{}: is the input: choose another directory with --out", target.display());
        if zipped(path) {
            let mut file = GzEncoder::new(File::create(&target).with_context(failed)?, Compression::default());
            file.write_all(text.as_bytes()).with_context(failed)?;
            file.finish().with_context(failed)?;
            return Ok(());
        }
        fs::write(&target, text).with_context(failed)
    }
}

impl Columns {
    fn find(header: &str) -> Result<Self> {
        let names: Vec<&str> = header.trim_start_matches('\u{feff}').split(',').map(str::trim).collect();
        let find = |name: &str| {
            let found = names.iter().position(|n| n.eq_ignore_ascii_case(name));
            found.ok_or_else(|| anyhow!("no column {name:?} in the header {header:?}: it needs id,lower,upper,size"))
        };
        find("id")?;
        Ok(Self { lower: find("lower")?, upper: find("upper")?, size: find("size")?, count: names.len() })
    }

    fn buffer(&self, row: &str, inclusive: bool) -> Result<Buffer> {
        let fields: Vec<&str> = row.split(',').map(str::trim).collect();
        ensure!(fields.len() == self.count, "{} fields, but the header has {}", fields.len(), self.count);
        let number = |at: usize, name: &str| {
            let parsed = fields[at].parse::<u64>();
            parsed.map_err(|e| anyhow!("{name} is {:?}, not a whole number of at least 0: {e}", fields[at]))
        };
        let time = |at: usize, name: &str, add: u64| {
            let time = number(at, name)?;
            u32::try_from(time.saturating_add(add)).map_err(|_| anyhow!("{name} is {time}: times must stay below 2^32"))
        };
        let lower = time(self.lower, "lower", 0)?;
        let upper = time(self.upper, "upper", u64::from(inclusive))?;
        ensure!(lower <= upper, "lower {lower} is above upper {upper}");
        Ok(Buffer { lower, upper, size: number(self.size, "size")? })
    }
}

fn zipped(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz"))
}
