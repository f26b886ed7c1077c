//! The processes that work together, and where they meet.

use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use super::error::CollectiveError;
use crate::device::parse_time_limit;

/// How long an operation may wait for the other ranks, unless the caller or the environment sets it.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// How long the ranks may take to find each other: programs start at different times.
const JOIN_LIMIT: Duration = Duration::from_secs(60);

/// The longest limit, a century: the system's clock can add it to the present.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The default port of torchrun's own store.
const MASTER_PORT: u16 = 29500;

/// The processes that work together, each with one device: this one's rank, how many there are, and where they meet.
///
/// [`World::from_environment`] reads it from the variables of torchrun, Slurm and Open MPI; [`World::new`] is for a program
/// that starts its own processes.
///
/// ```
/// use ferrowarp::collective::{CollectiveError, World};
///
/// let world = World::from_environment()?; // A world of one without a launcher.
/// println!("{world}, GPU {} of its machine", world.local_rank());
/// # assert_eq!(world.size(), 1);
/// # Ok::<(), CollectiveError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    rank: u32,
    size: u32,
    local_rank: u32,
    host: String,
    port: u16,
    time_limit: Duration,
    join_limit: Duration,
    /// The hash of the ranks' common key; 0 without one.
    pub(super) key: u64,
}

/// Reads a variable of the environment, or of a test's.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl World {
    /// A world of one process, which needs neither NCCL nor a network.
    pub fn single() -> World {
        World {
            rank: 0,
            size: 1,
            local_rank: 0,
            host: "127.0.0.1".to_owned(),
            port: MASTER_PORT + 1,
            time_limit: TIME_LIMIT,
            join_limit: JOIN_LIMIT,
            key: 0,
        }
    }

    /// Describes process `rank` of `size`, with `local_rank` processes of lower rank on its machine. Rank 0 listens on
    /// `port` of `host`, and the others connect to it.
    ///
    /// ```
    /// use ferrowarp::collective::World;
    ///
    /// let world = World::new(3, 4, 3, "127.0.0.1", 29501)?;
    /// assert_eq!(world.to_string(), "rank 3 of 4");
    /// assert!(World::new(4, 4, 0, "127.0.0.1", 29501).is_err());
    /// # Ok::<(), ferrowarp::collective::CollectiveError>(())
    /// ```
    ///
    /// # Errors
    /// `rank` is not below `size`.
    pub fn new(
        rank: u32,
        size: u32,
        local_rank: u32,
        host: &str,
        port: u16,
    ) -> Result<World, CollectiveError> {
        if rank >= size {
            let reason = format!("rank {rank} is not below the number of ranks, {size}; number them from 0");
            return Err(CollectiveError::World { reason });
        }
        Ok(World { rank, size, local_rank, host: host.to_owned(), port, ..World::single() })
    }

    /// Reads the world from the launcher's environment variables; without them it is a world of one.
    ///
    /// | launcher | rank | ranks | rank on the machine | where rank 0 listens |
    /// | --- | --- | --- | --- | --- |
    /// | torchrun | `RANK` | `WORLD_SIZE` | `LOCAL_RANK` | `MASTER_ADDR`, `MASTER_PORT` + 1 |
    /// | Open MPI | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_SIZE` | `OMPI_COMM_WORLD_LOCAL_RANK` | this machine, or `MASTER_ADDR` |
    /// | Slurm | `SLURM_PROCID` | `SLURM_STEP_NUM_TASKS`, `SLURM_NTASKS` | `SLURM_LOCALID` | the first machine of the step |
    ///
    /// The first launcher in this order that has set its rank is used. `MASTER_PORT` belongs to torchrun's own store, so the
    /// port is the next one: 29501 if it is not set, and under Slurm a port derived from the job's number.
    /// `FERROWARP_COLLECTIVE_PORT` overrides it. `FERROWARP_COLLECTIVE_SECONDS` and `FERROWARP_JOIN_SECONDS` are the limits
    /// of [`World::with_time_limit`] and [`World::with_join_limit`], `FERROWARP_COLLECTIVE_KEY` is [`World::with_key`]'s.
    ///
    /// # Errors
    /// A variable is missing or has an invalid value; the error names it.
    pub fn from_environment() -> Result<World, CollectiveError> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self::from_variables(&|name| set(name).map(|value| value.to_string_lossy().into_owned()))
            .map_err(|reason| CollectiveError::World { reason })
    }

    fn from_variables(get: Variables<'_>) -> Result<World, String> {
        let mut world = if get("RANK").is_some() {
            Self::numbered(get, "RANK", &["WORLD_SIZE"], "LOCAL_RANK")?
        } else if get("OMPI_COMM_WORLD_RANK").is_some() {
            let rank = "OMPI_COMM_WORLD_RANK";
            let mut world =
                Self::numbered(get, rank, &["OMPI_COMM_WORLD_SIZE"], "OMPI_COMM_WORLD_LOCAL_RANK")?;
            world.check_one_machine(get)?;
            world.host = get("MASTER_ADDR").unwrap_or(world.host);
            world
        } else if get("SLURM_PROCID").is_some() {
            let sizes = ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];
            let mut world = Self::numbered(get, "SLURM_PROCID", &sizes, "SLURM_LOCALID")?;
            world.meet_by_slurm(get)?;
            world
        } else {
            Self::single()
        };
        if let Some(port) = get("FERROWARP_COLLECTIVE_PORT") {
            world.port = port_number("FERROWARP_COLLECTIVE_PORT", &port)?;
        } else if get("MASTER_PORT").is_some() || get("SLURM_PROCID").is_none() {
            let store = match get("MASTER_PORT") {
                Some(port) => port_number("MASTER_PORT", &port)?,
                None => MASTER_PORT,
            };
            world.port = store.checked_add(1).ok_or_else(|| {
                format!("MASTER_PORT is {store}, and the next port is needed; set FERROWARP_COLLECTIVE_PORT")
            })?;
        }
        for (name, limit) in [
            ("FERROWARP_COLLECTIVE_SECONDS", &mut world.time_limit),
            ("FERROWARP_JOIN_SECONDS", &mut world.join_limit),
        ] {
            if let Some(text) = get(name) {
                let parsed =
                    parse_time_limit(&text).map_err(|reason| format!("{name} is {text:?}: {reason}"))?;
                *limit = parsed.min(LONGEST);
            }
        }
        Ok(get("FERROWARP_COLLECTIVE_KEY").map_or(world.clone(), |key| world.with_key(&key)))
    }

    fn numbered(
        get: Variables<'_>,
        rank_name: &str,
        sizes: &[&str],
        local_name: &str,
    ) -> Result<World, String> {
        let rank = number(get, rank_name)?;
        let size_name = sizes.iter().find(|name| get(name).is_some()).unwrap_or(&sizes[0]);
        let size = number(get, size_name)?;
        if rank >= size {
            return Err(format!("{rank_name} is {rank}, which is not below {size_name}, {size}"));
        }
        let local_rank = number(get, local_name)?;
        let host = get("MASTER_ADDR");
        if size > 1 && rank_name == "RANK" && host.is_none() {
            return Err(format!(
                "{rank_name} is set and MASTER_ADDR is not; start the program with torchrun, or set MASTER_ADDR to the \
                 machine of rank 0"
            ));
        }
        let single = Self::single();
        Ok(World { rank, size, local_rank, host: host.unwrap_or_else(|| single.host.clone()), ..single })
    }

    /// Checks that all ranks are on this machine or `MASTER_ADDR` is set, since Open MPI does not report where rank 0 is.
    fn check_one_machine(&self, get: Variables<'_>) -> Result<(), String> {
        let here = match get("OMPI_COMM_WORLD_LOCAL_SIZE") {
            Some(_) => number(get, "OMPI_COMM_WORLD_LOCAL_SIZE")?,
            None => self.size,
        };
        if here == self.size || get("MASTER_ADDR").is_some() {
            return Ok(());
        }
        Err(format!(
            "Open MPI runs {here} of {} ranks on this machine and does not report where rank 0 is; set MASTER_ADDR to that \
             machine (`mpirun -x MASTER_ADDR=..`)",
            self.size
        ))
    }

    fn meet_by_slurm(&mut self, get: Variables<'_>) -> Result<(), String> {
        let nodes = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"];
        let first = nodes.iter().find_map(|name| get(name)).and_then(|nodes| first_host(&nodes));
        let host = get("MASTER_ADDR").or(first).or_else(|| get("SLURM_LAUNCH_NODE_IPADDR"));
        self.host = match host {
            Some(host) => host,
            None if self.size == 1 => return Ok(()),
            None => {
                return Err("SLURM_PROCID is set, and none of SLURM_STEP_NODELIST, SLURM_JOB_NODELIST and \
                            SLURM_LAUNCH_NODE_IPADDR; set MASTER_ADDR to the machine of rank 0"
                    .to_owned());
            }
        };
        // Two jobs, or two steps of one, may share a machine.
        let job = get("SLURM_JOB_ID").and_then(|id| id.parse::<u64>().ok()).unwrap_or(0);
        let step = get("SLURM_STEP_ID").and_then(|id| id.parse::<u64>().ok()).unwrap_or(0);
        let offset = job.wrapping_add(step.wrapping_mul(7919)) % 10_000;
        self.port = 20_000 + u16::try_from(offset).unwrap_or(0);
        Ok(())
    }

    /// Sets the time limit: an operation that waits longer than `limit` for other ranks ends with an error. The default is
    /// 10 s, the longest a century. It must be longer than any rank computes between two operations.
    pub fn with_time_limit(self, limit: Duration) -> World {
        World { time_limit: limit.min(LONGEST), ..self }
    }

    /// Sets how long the ranks wait for the last one to start. The default is 60 s, the longest a century.
    pub fn with_join_limit(self, limit: Duration) -> World {
        World { join_limit: limit.min(LONGEST), ..self }
    }

    /// Sets the key that all ranks share; rank 0 refuses others. Without one, any program that reaches its port while the ranks
    /// join can take a rank's place. A program that reads the network learns the key.
    pub fn with_key(self, key: &str) -> World {
        World { key: BuildHasherDefault::<DefaultHasher>::default().hash_one(key), ..self }
    }

    /// The number of this process, from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of processes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The number of processes with lower rank on this machine. It is the ordinal of this process's GPU, unless the launcher
    /// shows each process only one GPU.
    pub fn local_rank(&self) -> u32 {
        self.local_rank
    }

    /// The longest time that an operation waits for other ranks.
    pub fn time_limit(&self) -> Duration {
        self.time_limit
    }

    /// The longest time that the ranks wait for the last one to start.
    pub fn join_limit(&self) -> Duration {
        self.join_limit
    }

    /// The machine and the port on which rank 0 listens.
    pub fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}

fn number(get: Variables<'_>, name: &str) -> Result<u32, String> {
    let text =
        get(name).ok_or_else(|| format!("{name} is not set, which the launcher sets for every process"))?;
    text.trim().parse().map_err(|_| format!("{name} is {text:?}, which is not a number from 0"))
}

fn port_number(name: &str, text: &str) -> Result<u16, String> {
    let port = text.trim().parse().ok().filter(|&port| port > 0);
    port.ok_or_else(|| format!("{name} is {text:?}, which is not a port from 1 to 65535"))
}

/// The first machine of a list such as `gpu[003-006,9],login1`.
fn first_host(nodes: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = nodes.trim();
    while let Some(at) = rest.find(['[', ',']) {
        host.push_str(&rest[..at]);
        if rest[at..].starts_with(',') {
            return Some(host);
        }
        let (range, after) = rest[at + 1..].split_once(']')?;
        host.push_str(range.split(['-', ',']).next()?);
        rest = after;
    }
    host.push_str(rest);
    Some(host).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<World, String> {
        World::from_variables(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_program_without_a_launcher_is_alone() {
        assert_eq!(read(&[]), Ok(World::single()));
        assert_eq!(read(&[("FERROWARP_COLLECTIVE_KEY", "k")]), Ok(World::single().with_key("k")));
    }

    #[test]
    fn torchrun_is_understood() {
        let torchrun = [
            ("RANK", "3"),
            ("WORLD_SIZE", "4"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "node7"),
            ("MASTER_PORT", "1234"),
            // torchrun under Slurm.
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "2"),
        ];
        let world = read(&torchrun).unwrap();
        assert_eq!((world.rank, world.size, world.local_rank), (3, 4, 1));
        assert_eq!(world.address(), ("node7", 1235));
        let mut other = torchrun.to_vec();
        other.push(("FERROWARP_COLLECTIVE_PORT", "99"));
        other.push(("FERROWARP_COLLECTIVE_SECONDS", "2.5"));
        let world = read(&other).unwrap();
        assert_eq!((world.address().1, world.time_limit), (99, Duration::from_millis(2500)));
    }

    #[test]
    fn slurm_is_understood() {
        let world = read(&[
            ("SLURM_PROCID", "9"),
            ("SLURM_NTASKS", "1"),
            ("SLURM_STEP_NUM_TASKS", "16"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_STEP_NODELIST", "gpu[003-006,9],login1"),
            ("SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"),
            ("SLURM_JOB_ID", "123456"),
        ])
        .unwrap();
        assert_eq!((world.rank, world.size, world.local_rank), (9, 16, 1));
        assert_eq!(world.address(), ("gpu003", 23456));
    }

    #[test]
    fn the_first_host_of_a_list_is_found() {
        for (list, host) in [
            ("a", Some("a")),
            ("a1,a2", Some("a1")),
            ("a[07-12]", Some("a07")),
            ("a[7,9]-ib,b", Some("a7-ib")),
            ("", None),
            ("a[7", None),
        ] {
            assert_eq!(first_host(list).as_deref(), host, "{list}");
        }
    }

    #[test]
    fn open_mpi_is_understood() {
        let here = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        let world = read(&here).unwrap();
        assert_eq!((world.rank, world.size, world.address()), (1, 2, ("127.0.0.1", 29501)));
        let mut spread = here;
        spread[3].1 = "1";
        let error = read(&spread).unwrap_err();
        assert!(error.contains("1 of 2 ranks on this machine") && error.contains("MASTER_ADDR"), "{error}");
    }

    #[test]
    fn senseless_variables_are_named() {
        for (variables, expected) in [
            (&[("RANK", "x")][..], "RANK is \"x\", which is not a number from 0"),
            (&[("RANK", "0")], "WORLD_SIZE is not set"),
            (&[("RANK", "2"), ("WORLD_SIZE", "2")], "RANK is 2, which is not below WORLD_SIZE, 2"),
            (&[("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")], "MASTER_ADDR is not"),
            (&[("MASTER_PORT", "0")], "MASTER_PORT is \"0\", which is not a port"),
            (&[("MASTER_PORT", "65535")], "set FERROWARP_COLLECTIVE_PORT"),
            (&[("FERROWARP_JOIN_SECONDS", "soon")], "FERROWARP_JOIN_SECONDS is \"soon\""),
        ] {
            let error = read(variables).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
