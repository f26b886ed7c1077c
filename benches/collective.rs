//! Times work on several GPUs: `cargo bench collective`.
//!
//! - `all_reduce` and `all_reduce_graph`: `f32` in place, 1 KiB to 1 GiB, queued one by one and as a CUDA graph. The
//!   bandwidth is the bus bandwidth as nccl-tests defines it.
//! - `cross_entropy_losses` and `cross_entropy`: 4096 rows of 262144 classes in `bf16`, without and with the gradient. The
//!   classes are divided among the GPUs.
//! - `wide_mlp`: a training step with layers of 8192 in `bf16`, data-parallel with the same batch on each GPU.
//!
//! Results are checked before they are timed. A time is the device's own, from events, on the slowest rank. It is measured
//! on one GPU and on all GPUs; `--ranks 1,2` selects other numbers. For each number the bench starts one process per rank.
//! Under torchrun, Slurm or Open MPI it is one rank of the launcher's world. The medians go into `collective.json` in
//! criterion's folder. Without a GPU, small problems run on one CPU.
//!
//! `FERROWARP_NCCL` names NCCL's library. `cargo bench collective -- cross_entropy` selects the measurements that have the
//! word in their id, such as `all_reduce/f32/1024 on 2`. `benches/peers/collective.py` times PyTorch's all-reduce.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use ferrowarp::collective::{Communicator, World};
use ferrowarp::device::{Device, DeviceChoice, DeviceError, open};
use ferrowarp_benches::collective::{CollectiveEntry, Scale, measure};
use ferrowarp_benches::exit_code;
use ferrowarp_benches::results::Results;

/// Set in the environment of processes that this program starts.
const STARTED: &str = "FERROWARP_BENCH_RANK";

/// Prefix of an output line that is an entry in JSON.
const ENTRY: &str = "entry ";

/// The longest that a rank computes between two operations: the host needs seconds for a gigabyte of logits.
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    exit_code(match World::from_environment() {
        Ok(world) if std::env::var_os(STARTED).is_some() || world.size() > 1 => rank(&world, &arguments),
        Ok(_) => all(&arguments),
        Err(error) => Err(error.into()),
    })
}

/// The value of a flag.
fn value<'a>(arguments: &'a [String], flag: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == flag)?;
    Some(arguments.get(at + 1).map_or("", String::as_str))
}

/// The part of ids to select, from the command line.
fn filter(arguments: &[String]) -> &str {
    let ranks = value(arguments, "--ranks");
    let mut words = arguments.iter().map(String::as_str).filter(|word| !word.starts_with("--"));
    let word = words.find(|word| ranks != Some(*word)).unwrap_or_default();
    // `cargo bench` itself passes the bench's name to select it.
    if word == "collective" { "" } else { word }
}

/// Runs one rank. Rank 0 prints its entries for the process that started it, or writes the file under a launcher.
fn rank(world: &World, arguments: &[String]) -> anyhow::Result<Vec<String>> {
    let device = device(world.local_rank())?;
    let scale = if device.is_cuda() { Scale::GPU } else { Scale::CPU };
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let scale = if is_test { scale.once() } else { scale };
    let world = world.clone().with_time_limit(LIMIT);
    let communicator = Arc::new(Communicator::connect(&world, &device)?);
    let (is_first, is_child) = (world.rank() == 0, std::env::var_os(STARTED).is_some());
    let mut entries = Vec::new();
    measure(&communicator, scale, filter(arguments), |entry| {
        if is_first && is_child {
            // A line of JSON: an entry has no maps with keys that could fail.
            println!("{ENTRY}{}", serde_json::to_string(&entry).unwrap_or_default());
        } else if is_first {
            print(&entry);
        }
        entries.push(entry);
    });
    let failed = failed(&entries);
    if is_first && !is_child && !is_test {
        let mut results = Results::new(&device)?;
        results.entries = entries;
        eprintln!("wrote {}", results.write("collective.json")?.display());
    }
    Ok(failed)
}

/// The device of a rank: the GPU with its number on the machine, or the CPU.
fn device(local_rank: u32) -> Result<Device, DeviceError> {
    if local_rank == 0 {
        return Ok(open(DeviceChoice::Auto)?.0);
    }
    match Device::cuda(local_rank) {
        // A launcher may show each process only its own GPU.
        Err(
            DeviceError::NoDriver(_)
            | DeviceError::PtxMissing { .. }
            | DeviceError::NoDevice { count: 0 | 1, .. },
        ) => Ok(open(DeviceChoice::Auto)?.0),
        opened => opened,
    }
}

/// Runs worlds of one rank and of all, or of the sizes on the command line. Returns the failures.
fn all(arguments: &[String]) -> anyhow::Result<Vec<String>> {
    let (device, why) = open(DeviceChoice::Auto)?;
    eprintln!("{why}");
    let mut results = Results::new(&device)?;
    let sizes = match value(arguments, "--ranks") {
        Some(words) => words
            .split(',')
            .map(|word| word.parse().ok().filter(|&size| size > 0))
            .collect::<Option<Vec<u32>>>()
            .with_context(|| format!("--ranks {words} is not a list of numbers, such as --ranks 1,2"))?,
        None if device.is_cuda() => sizes(gpus()),
        None => vec![1],
    };
    // The ranks need the memory.
    drop(device);
    let mut failed = Vec::new();
    for size in sizes {
        match world(size, arguments) {
            Ok(entries) => results.entries.extend(entries),
            Err(error) => failed.push(format!("{size} ranks: {error:#}")),
        }
    }
    failed.extend(self::failed(&results.entries));
    print_scaling(&results.entries);
    if !arguments.iter().any(|argument| argument == "--test") {
        eprintln!("wrote {}", results.write("collective.json")?.display());
    }
    Ok(failed)
}

/// One GPU, and all of them.
fn sizes(gpus: u32) -> Vec<u32> {
    if gpus > 1 { vec![1, gpus] } else { vec![1] }
}

/// The number of GPUs in this machine, at least one.
fn gpus() -> u32 {
    let output = Command::new("nvidia-smi").args(["--query-gpu=index", "--format=csv,noheader"]).output();
    let count = output.map_or(1, |output| String::from_utf8_lossy(&output.stdout).lines().count());
    u32::try_from(count).unwrap_or(1).max(1)
}

/// Processes that are killed on drop if they still run.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if let Ok(None) = child.try_wait() {
                // The errors of a process that has just ended do not matter.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// Runs a world of `size` ranks, and returns the entries of rank 0.
fn world(size: u32, arguments: &[String]) -> anyhow::Result<Vec<CollectiveEntry>> {
    let program = std::env::current_exe().context("finding this program's file")?;
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.context("finding a free port for the ranks")?.port().to_string();
    let mut ranks = Ranks(Vec::new());
    for rank in 0..size {
        let [rank, size] = [rank, size].map(|number| number.to_string());
        let child = Command::new(&program)
            .args(arguments)
            .envs([("RANK", &rank), ("LOCAL_RANK", &rank), ("WORLD_SIZE", &size)])
            .envs([
                ("MASTER_ADDR", "127.0.0.1"),
                ("FERROWARP_COLLECTIVE_PORT", port.as_str()),
                (STARTED, "1"),
            ])
            .stdin(Stdio::null())
            .stdout(if rank == "0" { Stdio::piped() } else { Stdio::null() })
            .spawn()
            .with_context(|| format!("starting rank {rank}"))?;
        ranks.0.push(child);
    }
    let mut output = String::new();
    if let Some(mut stdout) = ranks.0.first_mut().and_then(|child| child.stdout.take()) {
        stdout.read_to_string(&mut output).context("reading what rank 0 prints")?;
    }
    let lines = output.lines().filter_map(|line| line.strip_prefix(ENTRY));
    let entries: Vec<CollectiveEntry> =
        lines.map(serde_json::from_str).collect::<Result<_, _>>().context("reading the entries of rank 0")?;
    entries.iter().for_each(print);
    // A failed rank has printed its error, and rank 0's entry contains it, too, if there is one.
    let is_known = entries.iter().any(|entry| entry.error.is_some());
    for (rank, child) in ranks.0.iter_mut().enumerate() {
        let status = child.wait().with_context(|| format!("waiting for rank {rank}"))?;
        ensure!(status.success() || is_known, "rank {rank} ended with {status}; see its error above");
    }
    Ok(entries)
}

fn failed(entries: &[CollectiveEntry]) -> Vec<String> {
    let failed =
        entries.iter().filter_map(|entry| Some(format!("{}: {}", entry.id(), entry.error.as_ref()?)));
    failed.collect()
}

fn print(entry: &CollectiveEntry) {
    let id = entry.id();
    let Some(time) = entry.microseconds else {
        return println!("{id:56} {}", entry.error.as_deref().unwrap_or_default());
    };
    let bandwidth = entry.bus_bytes_per_second.map(|speed| format!("{:10.2} GB/s on the bus", speed / 1e9));
    let images = entry.images_per_second.map(|images| format!("{images:10.0} images/s"));
    println!("{id:56} {time:12.2} us {}", bandwidth.or(images).unwrap_or_default());
}

/// Compares problems on several ranks with the same problems on one.
fn print_scaling(entries: &[CollectiveEntry]) {
    for alone in entries.iter().filter(|entry| entry.ranks == 1 && !entry.name.starts_with("all_reduce")) {
        let others = entries.iter().filter(|entry| {
            entry.ranks > 1 && (&entry.name, &entry.problem) == (&alone.name, &alone.problem)
        });
        for together in others {
            let (Some(one), Some(time)) = (alone.microseconds, together.microseconds) else { continue };
            let images = alone.images_per_second.zip(together.images_per_second);
            let change = match images {
                Some((one, all)) => format!("{:.3} times the images per second", all / one),
                None => format!("{:.1} % of the time", 100.0 * time / one),
            };
            println!("{}: {change} of one rank", together.id());
        }
    }
}
