//! Finds the rank of a process in the variables that torchrun, mpirun and srun set.

use std::num::NonZeroU16;

use crate::common::Result;

/// The port of rank 0 if `MASTER_PORT` is not set, as everywhere.
const PORT: u16 = 29500;

/// A process of a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    /// The rank among those of the same host, which is also the number of its GPU.
    pub(crate) local_rank: usize,
    /// Host and port where rank 0 waits for the others.
    pub(crate) address: String,
}

/// More ranks than any machine has GPUs. Rank 0 has a table of all ranks.
const MOST_RANKS: usize = 1 << 16;

/// The variables of one launcher, in the order rank, ranks, local rank.
struct Launcher {
    name: &'static str,
    variables: [&'static str; 3],
    /// Another variable, and its value for a number of ranks that are all on one host.
    one_host: (&'static str, fn(usize) -> usize),
}

/// Returns the value of a variable.
type Variables<'a> = dyn Fn(&str) -> Option<String> + 'a;

const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        name: "torchrun",
        variables: ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
        one_host: ("LOCAL_WORLD_SIZE", |ranks| ranks),
    },
    Launcher {
        name: "mpirun",
        variables: ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
        one_host: ("OMPI_COMM_WORLD_LOCAL_SIZE", |ranks| ranks),
    },
    Launcher {
        name: "srun",
        variables: ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
        one_host: ("SLURM_NNODES", |_| 1),
    },
];

impl Place {
    /// The place of this process, if a launcher started it.
    ///
    /// # Errors
    /// If only some of a launcher's variables are set, or their values do not fit together.
    pub(crate) fn find(get: &Variables<'_>) -> Result<Option<Place>> {
        let launcher = LAUNCHERS.iter().find(|launcher| get(launcher.variables[0]).is_some());
        launcher.map(|launcher| launcher.place(get)).transpose()
    }
}

impl Launcher {
    fn place(&self, get: &Variables<'_>) -> Result<Place> {
        let number = |name: &str| -> Result<usize> {
            let text = get(name).ok_or_else(|| {
                format!(
                    "{} is set and {name} is not: start this program with {}, or set both",
                    self.variables[0], self.name
                )
            })?;
            Ok(text.parse().map_err(|_| format!("{name} is {text:?}, and must be a number from 0 on"))?)
        };
        let [rank, ranks, local_rank] = self.variables;
        let (rank, ranks, local_rank) = (number(rank)?, number(ranks)?, number(local_rank)?);
        if rank >= ranks {
            let [name, size, _] = self.variables;
            return Err(
                format!("{name} is {rank} and {size} is {ranks}: ranks count from 0, so {name} must be less").into()
            );
        }
        if ranks > MOST_RANKS {
            let size = self.variables[1];
            return Err(format!("{size} is {ranks}, and this program serves at most {MOST_RANKS} ranks").into());
        }
        Ok(Place { rank, ranks, local_rank, address: self.address(get, ranks)? })
    }

    /// Where rank 0 waits.
    fn address(&self, get: &Variables<'_>, ranks: usize) -> Result<String> {
        let host = get("MASTER_ADDR").map_or_else(|| self.this_host(get, ranks), Ok)?;
        let text = get("MASTER_PORT").unwrap_or_else(|| PORT.to_string());
        // Port 0 would be a free port that no other rank knows.
        let port: NonZeroU16 =
            text.parse().map_err(|_| format!("MASTER_PORT is {text:?}, and must be a port from 1 to 65535"))?;
        let port = port.get();
        // There, torchrun itself listens at this port.
        let is_taken = get("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True");
        let port = if is_taken { port.checked_add(1).unwrap_or(PORT) } else { port };
        Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
    }

    /// The host of rank 0 without `MASTER_ADDR`.
    ///
    /// # Errors
    /// Unless the variables say that all ranks are on this host.
    fn this_host(&self, get: &Variables<'_>, ranks: usize) -> Result<String> {
        let (name, on_one_host) = (self.one_host.0, (self.one_host.1)(ranks));
        let size = self.variables[1];
        match get(name) {
            found if ranks == 1 || found == Some(on_one_host.to_string()) => Ok("127.0.0.1".to_owned()),
            None => Err(format!(
                "{size} is {ranks}, and neither {name} nor MASTER_ADDR is set: set {name}={on_one_host} if all ranks are on this host, or \
                 MASTER_ADDR to the host name of rank 0"
            )
            .into()),
            Some(found) => Err(format!(
                "{size} is {ranks} and {name} is {found}, so there are several hosts, and MASTER_ADDR is not set: set it to the host name \
                 of rank 0"
            )
            .into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &str) -> Result<Option<Place>, String> {
        let pairs: Vec<(&str, &str)> = variables.split_whitespace().filter_map(|pair| pair.split_once('=')).collect();
        let get = |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned());
        Place::find(&get).map_err(|error| error.to_string())
    }

    fn place(rank: usize, ranks: usize, local_rank: usize, address: &str) -> Result<Option<Place>, String> {
        Ok(Some(Place { rank, ranks, local_rank, address: address.to_owned() }))
    }

    #[test]
    fn each_launcher_is_understood() {
        assert_eq!(find(""), Ok(None));
        let torchrun = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=node7 MASTER_PORT=1234";
        assert_eq!(find(torchrun), place(5, 8, 1, "node7:1234"));
        // torchrun's own store has the port.
        assert_eq!(find(&format!("{torchrun} TORCHELASTIC_USE_AGENT_STORE=True")), place(5, 8, 1, "node7:1235"));
        let mpirun = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1";
        assert_eq!(find(&format!("{mpirun} OMPI_COMM_WORLD_LOCAL_SIZE=2")), place(1, 2, 1, "127.0.0.1:29500"));
        let one_host = "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2";
        assert_eq!(find(one_host), place(1, 2, 1, "127.0.0.1:29500"));
        let srun = "SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_NNODES=2 MASTER_ADDR=fe80::1";
        assert_eq!(find(srun), place(3, 4, 1, "[fe80::1]:29500"));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let wrong = |variables, part| {
            let error = find(variables).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        wrong("RANK=0 WORLD_SIZE=2", "LOCAL_RANK is not");
        wrong("RANK=2 WORLD_SIZE=2 LOCAL_RANK=0", "RANK is 2 and WORLD_SIZE is 2");
        wrong("RANK=0 WORLD_SIZE=1000000000000 LOCAL_RANK=0", "at most 65536 ranks");
        wrong("RANK=one WORLD_SIZE=2 LOCAL_RANK=0", "RANK is \"one\"");
        let neither =
            "neither LOCAL_WORLD_SIZE nor MASTER_ADDR is set: set LOCAL_WORLD_SIZE=2 if all ranks are on this host";
        wrong("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0", neither);
        wrong(
            "RANK=0 WORLD_SIZE=16 LOCAL_RANK=0 LOCAL_WORLD_SIZE=8",
            "LOCAL_WORLD_SIZE is 8, so there are several hosts",
        );
        wrong("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0", "set SLURM_NNODES=1 if all ranks are on this host");
        wrong("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_PORT=70000", "MASTER_PORT is \"70000\"");
        wrong("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_PORT=0", "MASTER_PORT is \"0\"");
    }
}
