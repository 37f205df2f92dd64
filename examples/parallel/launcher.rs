//! Which rank a process is, by the variables that torchrun, mpirun and srun set.

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
    /// Whether all ranks are on this host, by other variables.
    one_host: fn(&Variables<'_>) -> bool,
}

/// Returns the value of a variable.
type Variables<'a> = dyn Fn(&str) -> Option<String> + 'a;

const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        name: "torchrun",
        variables: ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
        one_host: |get| get("LOCAL_WORLD_SIZE").is_some() && get("LOCAL_WORLD_SIZE") == get("WORLD_SIZE"),
    },
    Launcher {
        name: "mpirun",
        variables: ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
        one_host: |get| {
            let ranks = get("OMPI_COMM_WORLD_LOCAL_SIZE");
            ranks.is_some() && ranks == get("OMPI_COMM_WORLD_SIZE")
        },
    },
    Launcher {
        name: "srun",
        variables: ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
        one_host: |get| get("SLURM_NNODES").as_deref() == Some("1"),
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
        let host = match get("MASTER_ADDR") {
            Some(host) => host,
            None if ranks == 1 || (self.one_host)(get) => "127.0.0.1".to_owned(),
            None => {
                return Err(format!(
                    "{} started {ranks} ranks on several hosts, and MASTER_ADDR is not set: set it to the host name of rank 0",
                    self.name
                )
                .into());
            }
        };
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
        wrong("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0", "MASTER_ADDR is not set");
        wrong("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_PORT=70000", "MASTER_PORT is \"70000\"");
        wrong("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_PORT=0", "MASTER_PORT is \"0\"");
    }
}
