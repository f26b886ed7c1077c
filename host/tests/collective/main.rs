//! Collective operations between processes, on the CPU device and with an NCCL that works on host memory.
//!
//! Each rank is a process of this program, which runs the same test as its parent. A test fails, instead of hanging, where
//! a rank does not end in time.

mod cross_entropy;
#[path = "../../../cuda/cust/tests/support/mod.rs"]
mod driver;
mod failures;
mod gpu;
mod operations;
#[path = "../support/nccl.rs"]
mod support;

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferrowarp::collective::{Communicator, World};
use ferrowarp::device::Device;
use tempfile::TempDir;

/// Present in the environment of a rank.
const CHILD: &str = "FERROWARP_TEST_CHILD";

/// How long ranks wait for each other: longer than a busy machine keeps a process waiting.
const LIMIT: Duration = Duration::from_secs(6);

/// After which a rank hangs: the limit, the time to start, and the time a busy machine takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a rank ended.
#[derive(Debug)]
struct Ended {
    /// None of one that was killed because it did not end.
    code: Option<i32>,
    output: String,
    /// Since all were started.
    time: Duration,
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Running ranks, and the folder of the fake NCCL's files. A killed rank leaves its own there.
struct Started {
    ranks: Vec<Child>,
    _folder: TempDir,
}

/// Starts these ranks of a world of `size`, which run this test, with additional variables.
fn start(test: &str, ranks: &[u32], size: u32, variables: &[(&str, &str)]) -> Started {
    let port = free_port().to_string();
    let (library, folder) = (support::fake_nccl(), tempfile::tempdir().unwrap());
    let start = |rank: &u32| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .env("TMPDIR", folder.path())
            .env("FERROWARP_NCCL", library)
            .envs([("RANK", rank.to_string()), ("LOCAL_RANK", rank.to_string())])
            .envs([("WORLD_SIZE", size.to_string().as_str()), ("MASTER_ADDR", "127.0.0.1")])
            .env("FERROWARP_COLLECTIVE_PORT", &port)
            .env("FERROWARP_COLLECTIVE_SECONDS", LIMIT.as_secs().to_string())
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    Started { ranks: ranks.iter().map(start).collect(), _folder: folder }
}

/// How they ended. A rank in `stuck` never ends; it is killed once the others have.
fn ended(mut started: Started, stuck: &[usize]) -> Vec<Ended> {
    let children = &mut started.ranks;
    let start = Instant::now();
    let mut times = vec![None; children.len()];
    let is_waited_for = |at: &usize| !stuck.contains(at);
    while start.elapsed() < PATIENCE
        && (0..children.len()).filter(is_waited_for).any(|at| times[at].is_none())
    {
        for (child, time) in children.iter_mut().zip(&mut times) {
            if time.is_none() && child.try_wait().unwrap().is_some() {
                *time = Some(start.elapsed());
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let end = |(child, time): (&mut Child, Option<Duration>)| {
        if time.is_none() {
            child.kill().unwrap();
        }
        let code = child.wait().unwrap().code();
        let mut output = String::new();
        child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        Ended { code, output, time: time.unwrap_or(PATIENCE) }
    };
    children.iter_mut().zip(times).map(end).collect()
}

/// Runs `body` in each rank of a world of `size`, where it must succeed.
fn in_each_rank(test: &str, size: u32, body: impl FnOnce(&Communicator)) {
    if std::env::var_os(CHILD).is_some() {
        let world = World::from_environment().unwrap();
        return body(&Communicator::connect(&world, &Device::cpu()).unwrap());
    }
    each_rank_succeeds(test, size);
}

/// Starts a world of `size`, in which this test must succeed.
fn each_rank_succeeds(test: &str, size: u32) {
    let ranks: Vec<u32> = (0..size).collect();
    for (rank, ended) in ended(start(test, &ranks, size, &[]), &[]).into_iter().enumerate() {
        assert!(ended.code == Some(0) && ended.output.contains("1 passed"), "rank {rank}: {ended:?}");
    }
}
