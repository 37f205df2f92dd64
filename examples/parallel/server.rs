//! Rank 0 of ranks that are processes: it has the hub, and a thread here answers the calls of each connection.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::hub::Hub;
use crate::peers::{Join, Outcome};
use crate::wire::{Channel, GREETING, Hello, Kind, receive, receive_within, send, to_bytes, to_numbers};

/// A rank that sends nothing for this long has failed. Ranks send a ping several times a second.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);
/// How long rank 0 waits at its end until the other ranks know how the training ended.
const FAREWELL: Duration = Duration::from_secs(10);

pub(crate) struct Server {
    shared: Arc<Shared>,
    address: String,
}

struct Shared {
    hub: Arc<Hub>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Connections that came.
    here: Vec<(usize, Channel)>,
    /// Ranks whose watch connection ended.
    gone: usize,
    /// All ranks were connected at once.
    has_begun: bool,
    is_closed: bool,
}

impl State {
    /// Gives the place of a connection back if it ended before the training began: its rank may connect again.
    fn leave(&mut self, hello: &Hello) {
        if !self.has_begun {
            self.here.retain(|here| *here != (hello.rank, hello.channel));
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_done`, at most for `time`. Returns whether it is done.
    fn wait(&self, time: Duration, is_done: impl Fn(&State) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), time, |state| !is_done(state));
        is_done(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Server {
    /// Listens at `address` for the other ranks.
    pub(crate) fn start(address: &str, hub: Arc<Hub>) -> Outcome<Server> {
        let listener = listen(address).map_err(|error| {
            format!(
                "rank 0 cannot listen at {address}: {error}; set MASTER_PORT to a free port, the same for all ranks"
            )
        })?;
        let shared = Arc::new(Shared { hub, state: Mutex::default(), changed: Condvar::new() });
        let server = Server { shared: shared.clone(), address: address.to_owned() };
        let accepting = thread::Builder::new().name("accept".to_owned()).spawn(move || accept(&listener, &shared));
        accepting.map(|_| server).map_err(|error| format!("the system has no thread for connections: {error}"))
    }

    /// Waits until all ranks are connected.
    pub(crate) fn wait_for_all(&self, time: Duration) -> Outcome<()> {
        let ranks = self.shared.hub.ranks();
        let are_all_here = |state: &State| state.here.len() == 3 * (ranks - 1);
        self.shared.wait(time, are_all_here);
        let mut state = self.shared.state();
        state.has_begun = are_all_here(&state);
        if state.has_begun {
            return Ok(());
        }
        let here = &state.here;
        let missing: Vec<String> = (1..ranks)
            .filter(|rank| here.iter().filter(|other| other.0 == *rank).count() < 3)
            .map(|rank| rank.to_string())
            .collect();
        Err(format!(
            "of {ranks} ranks, these did not connect to rank 0 at {} within {} s: {}; see whether they run, and whether they reach this host",
            self.address,
            time.as_secs(),
            missing.join(", ")
        ))
    }
}

/// Waits until the other ranks know how the training ended.
impl Drop for Server {
    fn drop(&mut self) {
        let connected = |state: &State| state.here.iter().filter(|here| here.1 == Channel::Watch).count();
        self.shared.wait(FAREWELL, |state| state.gone >= connected(state));
        self.shared.state().is_closed = true;
    }
}

fn listen(address: &str) -> io::Result<TcpListener> {
    match TcpListener::bind(address) {
        // The name leads to this host, but is the name of a router or a tunnel.
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or(error)?;
            TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], port)))
        }
        found => found,
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    // Without this, the thread would stay in its call after the end.
    let _ = listener.set_nonblocking(true);
    while !shared.state().is_closed {
        match listener.accept() {
            Ok((stream, _)) => {
                let shared = shared.clone();
                let serving = thread::Builder::new().name("serve".to_owned()).spawn(move || serve(stream, &shared));
                // Without a thread the connection ends, and its rank reports that.
                drop(serving);
            }
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    let greeted = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
    if greeted.is_err() {
        return;
    }
    // A connection of another program ends here.
    let Ok((Kind::Hello, contents)) = receive_within(&stream, SILENCE) else { return };
    let Ok(hello) = serde_json::from_slice::<Hello>(&contents) else { return };
    let answer = welcome(&hello, shared);
    let (kind, text) = answer.as_ref().map_or_else(|why| (Kind::Failed, why.as_str()), |()| (Kind::Done, ""));
    if send(&mut stream, kind, text.as_bytes()).is_err() || answer.is_err() {
        return;
    }
    // The limit of the first message does not hold for calls: a rank calls when it is ready.
    let _ = stream.set_read_timeout(None);
    let ended = answer_all(&mut stream, &hello, shared);
    if hello.channel == Channel::Watch {
        ended.unwrap_or_else(|why| shared.hub.fail(&why));
        shared.state().gone += 1;
        shared.changed.notify_all();
    } else {
        shared.state().leave(&hello);
    }
}

/// Whether the connection is one of a rank that is missing.
fn welcome(hello: &Hello, shared: &Shared) -> Outcome<()> {
    let (rank, ranks) = (hello.rank, shared.hub.ranks());
    if hello.greeting != GREETING || hello.ranks != ranks || rank == 0 || rank >= ranks {
        return Err(format!(
            "rank {rank} of {} does not belong to rank 0, which has {ranks} ranks: start all ranks by one launcher, with one version",
            hello.ranks
        ));
    }
    let mut state = shared.state();
    if state.here.contains(&(rank, hello.channel)) {
        return Err(format!("two processes are rank {rank}: each needs a rank of its own"));
    }
    state.here.push((rank, hello.channel));
    shared.changed.notify_all();
    Ok(())
}

/// Answers calls until the rank leaves. The error is why a connection ended otherwise.
fn answer_all(stream: &mut TcpStream, hello: &Hello, shared: &Shared) -> Outcome<()> {
    let rank = hello.rank;
    loop {
        let began = Instant::now();
        let received = match hello.channel {
            Channel::Watch => receive_within(stream, SILENCE),
            Channel::Texts | Channel::Numbers => receive(stream),
        };
        let (kind, contents) = received.map_err(|error| lost(rank, &error, began.elapsed()))?;
        let hub = &shared.hub;
        let answer = match kind {
            Kind::Leave => return Ok(()),
            Kind::Fail => {
                hub.fail(&String::from_utf8_lossy(&contents));
                Ok(Vec::new())
            }
            Kind::Ping => hub.failure().map_or(Ok(Vec::new()), Err),
            Kind::Gather => hub.gather(rank, String::from_utf8_lossy(&contents).into_owned()).and_then(|texts| {
                serde_json::to_vec(&*texts).map_err(|error| format!("texts of the ranks cannot be sent: {error}"))
            }),
            Kind::Mean => hub.join(rank, to_numbers(&contents), Join::Mean).map(|numbers| to_bytes(&numbers)),
            Kind::Concatenation => {
                hub.join(rank, to_numbers(&contents), Join::Concatenation).map(|numbers| to_bytes(&numbers))
            }
            Kind::Hello | Kind::Done | Kind::Failed => Err(format!("rank {rank} sent {kind:?}, which is no call")),
        };
        let (kind, contents) = answer.map_or_else(|why| (Kind::Failed, why.into_bytes()), |done| (Kind::Done, done));
        send(stream, kind, &contents).map_err(|error| lost(rank, &error, began.elapsed()))?;
    }
}

fn lost(rank: usize, error: &io::Error, waited: Duration) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("rank {rank} was silent for {} s: its process hangs, or its host is gone", waited.as_secs())
        }
        _ => format!("rank {rank} ended without an error: it was killed, or crashed; see its output"),
    }
}
