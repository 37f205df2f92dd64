//! A rank other than 0 whose rank 0 is another process.

use std::io;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::peers::{Join, Outcome, Peers};
use crate::server::SILENCE;
use crate::wire::{Channel, GREETING, Hello, Kind, receive, receive_within, send, to_bytes, to_numbers};

/// The time between two questions whether the training still runs.
const PING_EVERY: Duration = Duration::from_millis(100);
const RETRY_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Client {
    rank: usize,
    ranks: usize,
    texts: Mutex<TcpStream>,
    numbers: Mutex<TcpStream>,
    shared: Arc<Shared>,
    watch: Mutex<Option<JoinHandle<()>>>,
}

/// The state that calls of the rank share with the thread that watches rank 0.
struct Shared {
    address: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    failure: Option<String>,
    /// The failure is this rank's own, and rank 0 does not know it yet.
    is_news: bool,
    is_done: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Connects to rank 0, which may start up to `time` later.
    pub(crate) fn connect(address: &str, rank: usize, ranks: usize, time: Duration) -> Outcome<Client> {
        let deadline = Instant::now() + time;
        let connect = |channel| {
            let mut stream = reach(address, deadline).map_err(|error| {
                format!(
                    "rank 0 at {address} did not answer rank {rank} within {} s: {error}; see whether rank 0 runs, and whether \
                     MASTER_ADDR and MASTER_PORT are those of its host",
                    time.as_secs()
                )
            })?;
            let hello = Hello { greeting: GREETING.to_owned(), rank, ranks, channel };
            let hello = serde_json::to_vec(&hello).map_err(|error| error.to_string())?;
            ask(&mut stream, Kind::Hello, &hello).map_err(|error| gone(address, &error))??;
            Ok::<_, String>(stream)
        };
        let (texts, numbers, watched) =
            (connect(Channel::Texts)?, connect(Channel::Numbers)?, connect(Channel::Watch)?);
        let open = [texts.try_clone(), numbers.try_clone()].into_iter().collect::<io::Result<Vec<_>>>();
        let open = open.map_err(|error| gone(address, &error))?;
        for stream in &open {
            stream.set_read_timeout(None).map_err(|error| gone(address, &error))?;
        }
        let shared = Arc::new(Shared { address: address.to_owned(), state: Mutex::default(), changed: Condvar::new() });
        let watching = shared.clone();
        let watch = thread::Builder::new().name("watch".to_owned()).spawn(move || watching.watch(watched, &open));
        let watch = watch.map_err(|error| format!("the system has no thread to watch rank 0: {error}"))?;
        let watch = Mutex::new(Some(watch));
        Ok(Client { rank, ranks, texts: Mutex::new(texts), numbers: Mutex::new(numbers), shared, watch })
    }

    /// Tells rank 0 that this rank is done, or why it failed, and waits until that was sent. A process calls it before it ends, since
    /// threads that still communicate may keep this value from its drop.
    pub(crate) fn leave(&self) {
        lock(&self.shared.state).is_done = true;
        self.shared.changed.notify_all();
        if let Some(watch) = lock(&self.watch).take() {
            let _ = watch.join();
        }
    }

    fn call(&self, stream: &Mutex<TcpStream>, kind: Kind, contents: &[u8]) -> Outcome<Vec<u8>> {
        if let Some(cause) = self.failure() {
            return Err(cause);
        }
        let called = call(&mut lock(stream), kind, contents);
        let answer = called.unwrap_or_else(|error| Err(gone(&self.shared.address, &error)));
        answer.map_err(|why| self.shared.note(why))
    }
}

impl Peers for Client {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn gather(&self, text: String) -> Outcome<Arc<[String]>> {
        let answer = self.call(&self.texts, Kind::Gather, text.as_bytes())?;
        serde_json::from_slice(&answer)
            .map(|texts: Vec<String>| texts.into())
            .map_err(|error| format!("the answer of rank 0 is no list of texts: {error}"))
    }

    fn join(&self, numbers: Vec<f32>, by: Join) -> Outcome<Arc<[f32]>> {
        let kind = match by {
            Join::Mean => Kind::Mean,
            Join::Concatenation => Kind::Concatenation,
        };
        self.call(&self.numbers, kind, &to_bytes(&numbers)).map(|answer| to_numbers(&answer).into())
    }

    fn failure(&self) -> Option<String> {
        lock(&self.shared.state).failure.clone()
    }

    fn fail(&self, cause: &str) {
        let mut state = lock(&self.shared.state);
        if state.failure.is_none() {
            (state.failure, state.is_news) = (Some(cause.to_owned()), true);
            self.shared.changed.notify_all();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Shared {
    /// Keeps the first failure, and returns it.
    fn note(&self, why: String) -> String {
        lock(&self.state).failure.get_or_insert(why).clone()
    }

    /// Asks rank 0 again and again whether the training still runs. If it does not, calls on `open` connections end.
    fn watch(&self, mut stream: TcpStream, open: &[TcpStream]) {
        while let Some((kind, contents)) = self.next() {
            let called = ask(&mut stream, kind, contents.as_bytes());
            if let Err(why) = called.unwrap_or_else(|error| Err(gone(&self.address, &error))) {
                self.note(why);
                // Rank 0 answers calls with the failure if it can. If it is gone, nothing else would end them.
                thread::sleep(PING_EVERY);
                open.iter().for_each(|stream| _ = stream.shutdown(Shutdown::Both));
                break;
            }
        }
        let _ = send(&mut stream, Kind::Leave, &[]);
    }

    /// The next message to rank 0, after a while: a question, or this rank's failure. `None` if the rank is done.
    fn next(&self) -> Option<(Kind, String)> {
        let state = lock(&self.state);
        let is_idle = |state: &mut State| !(state.is_done || state.is_news);
        let waited = self.changed.wait_timeout_while(state, PING_EVERY, is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        match (std::mem::take(&mut state.is_news), &state.failure) {
            (true, Some(cause)) => Some((Kind::Fail, cause.clone())),
            _ if state.is_done => None,
            _ => Some((Kind::Ping, String::new())),
        }
    }
}

/// A request and its answer. The outer error is the connection's.
fn call(stream: &mut TcpStream, kind: Kind, contents: &[u8]) -> io::Result<Outcome<Vec<u8>>> {
    send(stream, kind, contents)?;
    receive(stream).map(outcome)
}

/// The same, for a request that rank 0 answers at once: the whole answer must come within [`SILENCE`].
fn ask(stream: &mut TcpStream, kind: Kind, contents: &[u8]) -> io::Result<Outcome<Vec<u8>>> {
    send(stream, kind, contents)?;
    receive_within(stream, SILENCE).map(outcome)
}

fn outcome((kind, contents): (Kind, Vec<u8>)) -> Outcome<Vec<u8>> {
    if kind == Kind::Done { Ok(contents) } else { Err(String::from_utf8_lossy(&contents).into_owned()) }
}

fn gone(address: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!(
                "rank 0 at {address} was silent for {} s: its process hangs, or its host is gone",
                SILENCE.as_secs()
            )
        }
        _ => format!("rank 0 at {address} ended without an error: it was killed, or crashed; see its output"),
    }
}

/// Connects until the deadline.
fn reach(address: &str, deadline: Instant) -> io::Result<TcpStream> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).max(RETRY_EVERY);
        let tried = address.to_socket_addrs().and_then(|found| {
            let mut last = Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
            for address in found {
                last = TcpStream::connect_timeout(&address, left);
                if last.is_ok() {
                    break;
                }
            }
            last
        });
        match tried {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => thread::sleep(RETRY_EVERY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::Hub;
    use crate::server::Server;

    const SOON: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(20);

    /// A port that was free a moment ago.
    fn address() -> String {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
    }

    #[test]
    fn ranks_meet_over_a_connection() {
        let (address, hub) = (address(), Hub::new(3));
        let server = Server::start(&address, hub.clone()).unwrap();
        thread::scope(|threads| {
            for rank in [1, 2] {
                let address = &address;
                threads.spawn(move || {
                    let peers = Client::connect(address, rank, 3, LONG).unwrap();
                    let texts = peers.gather(format!("{rank}\n\"")).unwrap();
                    assert_eq!(*texts, ["0", "1\n\"", "2\n\""].map(str::to_owned));
                    assert_eq!(*peers.join(vec![rank as f32; 2], Join::Mean).unwrap(), [1.0; 2]);
                    assert_eq!(*peers.join(vec![], Join::Concatenation).unwrap(), [7.0]);
                });
            }
            server.wait_for_all(LONG).unwrap();
            hub.gather(0, "0".to_owned()).unwrap();
            hub.join(0, vec![0.0; 2], Join::Mean).unwrap();
            hub.join(0, vec![7.0], Join::Concatenation).unwrap();
        });
        drop(server);
        assert_eq!(hub.failure(), None, "all left in order");
    }

    #[test]
    fn a_failure_of_one_rank_ends_the_calls_of_all() {
        let (address, hub) = (address(), Hub::new(3));
        let server = Server::start(&address, hub.clone()).unwrap();
        thread::scope(|threads| {
            let waiting = threads.spawn(|| {
                let peers = Client::connect(&address, 1, 3, LONG).unwrap();
                peers.join(vec![1.0], Join::Mean).unwrap_err()
            });
            Client::connect(&address, 2, 3, LONG).unwrap().fail("rank 2 has no more data");
            assert_eq!(waiting.join().unwrap(), "rank 2 has no more data");
            assert_eq!(hub.gather(0, String::new()).unwrap_err(), "rank 2 has no more data");
        });
        drop(server);
    }

    #[test]
    fn a_rank_that_vanishes_is_named() {
        let (address, hub) = (address(), Hub::new(2));
        let _server = Server::start(&address, hub.clone()).unwrap();
        let mut stream = TcpStream::connect(&address).unwrap();
        let hello = Hello { greeting: GREETING.to_owned(), rank: 1, ranks: 2, channel: Channel::Watch };
        call(&mut stream, Kind::Hello, &serde_json::to_vec(&hello).unwrap()).unwrap().unwrap();
        drop(stream);
        let error = hub.join(0, vec![1.0], Join::Mean).unwrap_err();
        assert!(error.starts_with("rank 1 ended without an error"), "{error}");
    }

    #[test]
    fn a_connection_that_ends_before_the_training_gives_its_place_back() {
        let address = address();
        let server = Server::start(&address, Hub::new(2)).unwrap();
        let mut stream = TcpStream::connect(&address).unwrap();
        let hello = Hello { greeting: GREETING.to_owned(), rank: 1, ranks: 2, channel: Channel::Texts };
        call(&mut stream, Kind::Hello, &serde_json::to_vec(&hello).unwrap()).unwrap().unwrap();
        drop(stream);
        let deadline = Instant::now() + LONG;
        // Rank 0 learns of the end a moment later.
        while Client::connect(&address, 1, 2, LONG).is_err() {
            assert!(Instant::now() < deadline, "the place is taken");
        }
        drop(server);
    }

    #[test]
    fn who_does_not_come_is_named() {
        let address = address();
        let error = Client::connect(&address, 1, 2, SOON).err().unwrap();
        assert!(error.contains(&format!("rank 0 at {address} did not answer rank 1")), "{error}");
        let server = Server::start(&address, Hub::new(4)).unwrap();
        let _second = Client::connect(&address, 2, 4, LONG).unwrap();
        let error = server.wait_for_all(SOON).unwrap_err();
        assert!(error.contains("did not connect") && error.contains(": 1, 3;"), "{error}");
        let error = Client::connect(&address, 2, 4, LONG).err().unwrap();
        assert!(error.contains("two processes are rank 2"), "{error}");
        let error = Client::connect(&address, 1, 8, LONG).err().unwrap();
        assert!(error.contains("which has 4 ranks"), "{error}");
        let error = Server::start(&address, Hub::new(2)).err().unwrap();
        assert!(error.contains("cannot listen"), "{error}");
    }
}
