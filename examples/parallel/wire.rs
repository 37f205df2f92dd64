//! Messages between rank 0 and the other ranks, if ranks are processes: a request, and one answer.
//!
//! A message is its kind (a byte), the length of its contents (eight bytes, the lowest first), and the contents.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The calls that a connection is for. Each rank has one connection for each, so that no call waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Channel {
    Texts,
    Numbers,
    /// Each end learns from it whether the other one still runs.
    Watch,
}

/// The first message of each connection.
#[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Hello {
    /// [`GREETING`]: other programs that connect to the port are not ranks.
    pub(crate) greeting: String,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) channel: Channel,
}

pub(crate) const GREETING: &str = "gpucache parallel 1";

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A [`Hello`] as JSON.
    Hello,
    /// A text of the rank. The answer has the texts of all ranks, as JSON.
    Gather,
    /// Numbers of the rank. The answer has their mean over all ranks.
    Mean,
    /// Numbers of the rank. The answer has the numbers of all ranks.
    Concatenation,
    /// A question whether the training still runs.
    Ping,
    /// The rank's failure.
    Fail,
    /// The rank is done.
    Leave,
    /// The answer to a request.
    Done,
    /// The failure that ended the training, instead of an answer.
    Failed,
}

const KINDS: [Kind; 9] = [
    Kind::Hello,
    Kind::Gather,
    Kind::Mean,
    Kind::Concatenation,
    Kind::Ping,
    Kind::Fail,
    Kind::Leave,
    Kind::Done,
    Kind::Failed,
];

/// The most bytes of one message: a bucket of all ranks.
const MOST_BYTES: u64 = 1 << 36;

pub(crate) fn send(to: &mut impl Write, kind: Kind, contents: &[u8]) -> io::Result<()> {
    let mut head = [0; 9];
    head[0] = kind as u8;
    head[1..].copy_from_slice(&(contents.len() as u64).to_le_bytes());
    to.write_all(&head)?;
    to.write_all(contents)?;
    to.flush()
}

/// A connection from which a whole message must come before a deadline. A limit for each read would let a byte now and then hold it forever.
struct Until<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&mut &*self.stream).read(into)
    }
}

/// Receives a message that must come whole within `time`.
pub(crate) fn receive_within(stream: &TcpStream, time: Duration) -> io::Result<(Kind, Vec<u8>)> {
    receive(&mut Until { stream, deadline: Instant::now() + time })
}

pub(crate) fn receive(from: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    let (mut kind, mut length) = ([0], [0; 8]);
    from.read_exact(&mut kind)?;
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "this is no message of a rank");
    let kind = *KINDS.get(usize::from(kind[0])).filter(|_| length <= MOST_BYTES).ok_or_else(invalid)?;
    // Memory grows with what arrives, not with what the head promises.
    let mut contents = Vec::new();
    from.take(length).read_to_end(&mut contents)?;
    if contents.len() as u64 == length { Ok((kind, contents)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

pub(crate) fn to_bytes(numbers: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; 4 * numbers.len()];
    bytes.chunks_exact_mut(4).zip(numbers).for_each(|(bytes, number)| bytes.copy_from_slice(&number.to_le_bytes()));
    bytes
}

pub(crate) fn to_numbers(bytes: &[u8]) -> Vec<f32> {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0.0, f32::from_le_bytes);
    bytes.chunks_exact(4).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_as_it_was_sent() {
        let mut bytes = Vec::new();
        for kind in KINDS {
            send(&mut bytes, kind, &to_bytes(&[1.5, -0.0, f32::MIN])).unwrap();
        }
        let mut left = &bytes[..];
        for kind in KINDS {
            let (found, contents) = receive(&mut left).unwrap();
            assert_eq!((found, to_numbers(&contents)), (kind, vec![1.5, -0.0, f32::MIN]));
        }
        assert!(receive(&mut left).is_err(), "there is no more");
    }

    #[test]
    fn a_message_that_comes_slowly_ends_at_its_deadline() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sending = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        std::thread::scope(|threads| {
            threads.spawn(move || {
                // The head promises 2^32 bytes. One comes every 10 ms until the other end is closed.
                sending.write_all(&[Kind::Gather as u8, 0, 0, 0, 0, 1, 0, 0, 0]).unwrap();
                while sending.write_all(&[1]).is_ok() {
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            let error = receive_within(&stream, Duration::from_millis(300)).unwrap_err();
            assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
            drop(stream);
        });
    }

    #[test]
    fn other_bytes_are_no_message() {
        assert!(receive(&mut &b"GET / HTTP/1.1\r\n\r\n"[..]).is_err());
        assert!(receive(&mut &[0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 2][..]).is_err(), "it is cut short");
        assert!(receive(&mut &[Kind::Ping as u8, 255, 255, 255, 255, 255, 255, 255, 255][..]).is_err());
    }
}
