//! One rank from its start to its end, as a thread of this process or as the process itself.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "cuda")]
use gpucache::prelude::Cuda;

use crate::checks;
use crate::client::Client;
use crate::collectives::{Alone, Collectives};
use crate::common::Result;
use crate::figures::Figures;
use crate::gpt::compute::Compute;
use crate::gpt::host::HostCompute;
use crate::host_thread::HostThread;
use crate::hub::{Hub, Member};
use crate::launcher::Place;
use crate::options::{Defaults, Event, Options};
use crate::peers::{Outcome, Peers};
use crate::report::Report;
use crate::server::Server;
use crate::training::Training;

/// The machine of all ranks.
#[derive(Clone, Copy, Debug)]
enum Machine {
    Host,
    /// GPUs from this number on.
    #[cfg(feature = "cuda")]
    Gpus(usize),
}

impl Machine {
    fn is_host(self) -> bool {
        matches!(self, Self::Host)
    }
}

/// One rank: its connection to the others, and its place on this host.
struct Rank<'a> {
    options: &'a Options,
    peers: Arc<dyn Peers>,
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "it is the number of a GPU"))]
    local_rank: usize,
    /// Ranks of this process.
    threads: usize,
    machine: Machine,
}

/// Runs all ranks as threads of this process.
pub(crate) fn threads(options: &Options, ranks: usize) -> Result<Report> {
    let (hub, machine) = (Hub::new(ranks), machine(options)?);
    checks::check(options, ranks, machine.is_host())?;
    let run = |rank: usize| {
        let peers = Arc::new(Member { hub: hub.clone(), rank });
        Rank { options, peers, local_rank: rank, threads: ranks, machine }.run()
    };
    let ended: Vec<Outcome<Option<Report>>> = std::thread::scope(|scope| {
        let start = |rank: usize| {
            let run = &run;
            let started =
                std::thread::Builder::new().name(format!("rank {rank}")).spawn_scoped(scope, move || run(rank));
            started.map_err(|error| {
                let cause = format!("the system has no thread for rank {rank}: {error}");
                hub.fail(&cause);
                cause
            })
        };
        let started: Vec<_> = (0..ranks).map(start).collect();
        let join = |(rank, thread): (usize, Outcome<std::thread::ScopedJoinHandle<'_, _>>)| {
            thread?.join().unwrap_or_else(|_| Err(format!("rank {rank} panicked")))
        };
        started.into_iter().enumerate().map(join).collect()
    });
    all_of(ended)
}

/// The report, or the cause of each rank.
fn all_of(ended: Vec<Outcome<Option<Report>>>) -> Result<Report> {
    let causes: Vec<String> = ended
        .iter()
        .enumerate()
        .filter_map(|(rank, end)| Some(format!("\n  rank {rank}: {}", end.as_ref().err()?)))
        .collect();
    if !causes.is_empty() {
        return Err(format!("{} of {} ranks ended with an error:{}", causes.len(), ended.len(), causes.concat()).into());
    }
    Ok(ended.into_iter().find_map(|end| end.ok().flatten()).ok_or("rank 0 gave no report")?)
}

/// Runs the rank of this process. Returns the report on rank 0.
pub(crate) fn process(options: &Options, place: &Place) -> Result<Option<Report>> {
    let named = |cause: String| format!("rank {} of {} ends: {cause}", place.rank, place.ranks);
    let machine = machine(options).map_err(|cause| named(cause.to_string()))?;
    checks::check(options, place.ranks, machine.is_host())?;
    Ok(process_of(options, place, machine).map_err(|cause| named(cause.to_string()))?)
}

fn process_of(options: &Options, place: &Place, machine: Machine) -> Result<Option<Report>> {
    let Place { rank, ranks, local_rank, address } = place;
    let time = Duration::from_secs(options.timeout);
    let run = |peers: Arc<dyn Peers>| Rank { options, peers, local_rank: *local_rank, threads: 1, machine }.run();
    if *rank > 0 {
        let client = Arc::new(Client::connect(address, *rank, *ranks, time)?);
        let ended = run(client.clone());
        client.leave();
        return Ok(ended?);
    }
    let hub = Hub::new(*ranks);
    // Dropped last, when the other ranks know how the training ended.
    let server = if *ranks > 1 { Some(Server::start(address, hub.clone())?) } else { None };
    let met = server.as_ref().map_or(Ok(()), |server| server.wait_for_all(time));
    met.inspect_err(|cause| hub.fail(cause))?;
    Ok(run(Arc::new(Member { hub, rank: 0 }))?)
}

#[cfg(feature = "cuda")]
fn machine(options: &Options) -> Result<Machine> {
    let open = |ordinal| Cuda::new(ordinal).map(|_| ordinal).map_err(Into::into);
    Ok(options.device.open_gpu(open)?.map_or(Machine::Host, Machine::Gpus))
}

#[cfg(not(feature = "cuda"))]
fn machine(options: &Options) -> Result<Machine> {
    options.device.refuse_gpu()?;
    Ok(Machine::Host)
}

/// Ends the other ranks if this one panics.
struct Panics<'a>(&'a dyn Peers);

impl Drop for Panics<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(&format!("rank {} panicked; its output says where", self.0.rank()));
        }
    }
}

impl Rank<'_> {
    /// Trains. If this rank fails, all ranks end with its error, and this one with the error that came first.
    fn run(self) -> Outcome<Option<Report>> {
        let _panics = Panics(&*self.peers);
        self.on_machine().map_err(|error| self.failed(&*error))
    }

    /// Ends all ranks, unless another one failed first. Returns why the training ended.
    fn failed(&self, error: &dyn std::error::Error) -> String {
        let peers = &self.peers;
        let cause = peers.failure().unwrap_or_else(|| format!("rank {} failed: {error}", peers.rank()));
        peers.fail(&cause);
        cause
    }

    /// Chooses between GPUs and the host. All code below is generic, and compiled for both.
    fn on_machine(&self) -> Result<Option<Report>> {
        self.agree()?;
        match self.machine {
            Machine::Host => self.on_host(),
            #[cfg(feature = "cuda")]
            Machine::Gpus(first) => self.on_gpu(first),
        }
    }

    /// Checks that all ranks have the same options, and the same kind of device.
    fn agree(&self) -> Result<()> {
        let (kind, defaults) =
            if self.machine.is_host() { ("the host", Defaults::HOST) } else { ("a GPU", Defaults::GPU) };
        let mut own = vec![("the device".to_owned(), kind.to_owned())];
        own.extend(self.options.shared(defaults));
        let texts = self.peers.gather(serde_json::to_string(&own)?)?;
        let all: Vec<Vec<(String, String)>> =
            texts.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>()?;
        let differs = |(rank, own): (usize, &Vec<_>)| Some((rank, checks::difference(own, all.first()?)?));
        match all.iter().enumerate().find_map(differs) {
            None => Ok(()),
            Some((rank, difference)) => Err(format!(
                "rank {rank} has other options than rank 0: {difference}; start all ranks with the same options"
            )
            .into()),
        }
    }

    fn on_host(&self) -> Result<Option<Report>> {
        let compute = HostCompute::new();
        let peers = self.peers.clone();
        match peers.ranks() {
            1 => self.train(&compute, &Alone, Defaults::HOST, self.threads),
            _ => self.train(&compute, &HostThread::new(peers)?, Defaults::HOST, self.threads),
        }
    }

    fn train<C: Compute>(
        &self,
        compute: &C,
        collectives: &dyn Collectives<C::Device>,
        defaults: Defaults,
        sharing: usize,
    ) -> Result<Option<Report>> {
        // The others learn of a failure before the collectives are dropped, which may wait for the others.
        let _panics = Panics(&*self.peers);
        let trained = self.train_to_end(compute, collectives, defaults, sharing);
        trained.map_err(|error| self.failed(&*error).into())
    }

    fn train_to_end<C: Compute>(
        &self,
        compute: &C,
        collectives: &dyn Collectives<C::Device>,
        defaults: Defaults,
        sharing: usize,
    ) -> Result<Option<Report>> {
        let (options, peers) = (self.options, &*self.peers);
        let rank = peers.rank();
        let mut training = Training::new(compute, collectives, options, defaults, (rank, peers.ranks()))?;
        // After a failure, a GPU ends its work with any numbers.
        let still_runs = || peers.failure().map_or(Ok(()), |cause| Err(cause.into()));
        let run = training.run(options, |step| self.injected(step), still_runs)?;
        let figures = Figures::of((rank, sharing, options.check), compute, &training, run)?;
        let all = peers.gather(serde_json::to_string(&figures)?)?;
        let all = all.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>()?;
        // All ranks make the report, so that all end with an error if their parameters differ.
        let report = Report::new(options, &training.sizes, training.buckets.all.len(), all)?;
        Ok((rank == 0).then_some(report))
    }

    /// The failures that the command line asks for.
    fn injected(&self, step: u32) -> Result<()> {
        let now = Some(Event { rank: self.peers.rank(), step });
        if self.options.kill == now {
            std::process::abort();
        }
        if self.options.fail == now {
            return Err(format!("--fail ended it before step {step}").into());
        }
        Ok(())
    }
}

#[cfg(feature = "cuda")]
impl Rank<'_> {
    /// Trains on the GPU of this rank.
    fn on_gpu(&self, first: usize) -> Result<Option<Report>> {
        use crate::gpt::cuda::CudaCompute;
        use crate::nccl::Nccl;
        use crate::options::Reduce;
        use crate::staged::Staged;

        let (ranks, reduce) = (self.peers.ranks(), self.options.reduce);
        if reduce == Reduce::Host {
            // Ranks may share a GPU then, each with a stream of its own.
            let gpus = (cudarc::driver::CudaContext::device_count()?.max(1) as usize).saturating_sub(first).max(1);
            let ordinal = first + self.local_rank % gpus;
            let device = Cuda::with_stream(Cuda::new(ordinal)?.stream().context().new_stream()?)?;
            let compute = CudaCompute::on(device, ordinal)?;
            return self.train(&compute, &Staged::new(self.peers.clone()), Defaults::GPU, self.threads.div_ceil(gpus));
        }
        let compute = CudaCompute::new(first + self.local_rank)?;
        if ranks == 1 && reduce == Reduce::Auto {
            return self.train(&compute, &Alone, Defaults::GPU, 1);
        }
        let time = Duration::from_secs(self.options.timeout);
        let collectives = Nccl::connect(compute.device(), self.peers.clone(), time)?;
        self.train(&compute, &collectives, Defaults::GPU, 1)
    }
}
