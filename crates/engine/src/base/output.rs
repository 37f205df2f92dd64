//! Files that environment variables request: a trace at exit, or a line of figures each second. Neither may delay the program.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A file or a pipe that this process writes to. A write never waits long for a reader: a pipe may be full and its reader may have stopped.
pub struct Output(File);

/// A reader that takes no bytes for this long counts as gone. A slow reader takes some bytes within this time.
const READER_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before the next attempt to write to a full pipe.
const PAUSE: Duration = Duration::from_millis(1);

impl Output {
    /// Opens a file and discards its old contents, or opens a pipe that somebody reads.
    ///
    /// # Errors
    /// The errors of the system. For a pipe without a reader, the error says so.
    pub fn create(path: &Path) -> io::Result<Output> {
        Output::open(path, OpenOptions::new().write(true).create(true).truncate(true))
    }

    /// As [`create`](Output::create), but a file keeps its old contents in front.
    ///
    /// # Errors
    /// As for [`create`](Output::create).
    pub fn append(path: &Path) -> io::Result<Output> {
        Output::open(path, OpenOptions::new().append(true))
    }

    fn open(path: &Path, options: &mut OpenOptions) -> io::Result<Output> {
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NONBLOCK);
        options.open(path).map(Output).map_err(|error| explained(path, error))
    }
}

#[cfg(unix)]
fn explained(path: &Path, error: io::Error) -> io::Error {
    use std::os::unix::fs::FileTypeExt;

    let is_pipe = || std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo());
    match error.raw_os_error() {
        Some(libc::ENXIO) if is_pipe() => io::Error::other("nobody reads this pipe: start its reader first"),
        _ => error,
    }
}

#[cfg(not(unix))]
fn explained(_path: &Path, error: io::Error) -> io::Error {
    error
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut began = None;
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return written,
            }
            if began.get_or_insert_with(Instant::now).elapsed() > READER_TIMEOUT {
                return Err(io::Error::new(ErrorKind::TimedOut, "its reader has stopped reading"));
            }
            sleep(PAUSE);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    fn pipe(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("gpucache-{name}-{}", std::process::id()));
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    #[test]
    fn a_pipe_without_a_reader_is_an_error() {
        let path = pipe("unread");
        let error = Output::create(&path).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("nobody reads this pipe"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_slow_reader_gets_all() {
        let path = pipe("slow");
        let text: Vec<u8> = (0..1 << 20).map(|number| number as u8).collect();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || {
                let (mut file, mut read) = (File::open(path).unwrap(), Vec::new());
                sleep(Duration::from_millis(50));
                file.read_to_end(&mut read).unwrap();
                read
            }
        });
        let mut output = loop {
            match Output::create(&path) {
                Ok(output) => break output,
                Err(_) => sleep(PAUSE),
            }
        };
        output.write_all(&text).unwrap();
        drop(output);
        assert!(reader.join().unwrap() == text);
        std::fs::remove_file(&path).unwrap();
    }
}
