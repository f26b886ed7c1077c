//! The processes of a run on several devices: this process's rank, the processes it starts, and their common stop.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use ferrowarp_device::collective::{CollectiveError, Communicator, World};
use ferrowarp_device::device::{self, Device, DeviceChoice, DeviceError};
use ferrowarp_mnist::model::Pipeline;
use ferrowarp_mnist::train::{Config, TrainError};

/// Set in the environment of processes that rank 0 starts.
const STARTED: &str = "FERROWARP_STARTED_BY_RANK_0";

/// The address at which processes started by rank 0 find it.
const HERE: &str = "127.0.0.1";

/// How often a process is polled; below, how much longer than the ranks' limit it may take to end.
const GLANCE: Duration = Duration::from_millis(10);
const GRACE: Duration = Duration::from_secs(5);

/// This process's rank, and the processes of the others if it has started them.
pub struct Ranks {
    pub world: World,
    /// Whether rank 0 has started the others.
    is_started_here: bool,
    /// Random, for the processes that this one starts.
    key: String,
    children: Vec<Child>,
}

impl Ranks {
    /// Takes the ranks that a launcher has started, or becomes rank 0 of `gpus` ranks; [`Self::start`] starts the others.
    pub fn new(gpus: Option<u32>) -> anyhow::Result<Ranks> {
        let world = World::from_environment()?;
        let gpus = gpus.unwrap_or(world.size());
        let is_started_here = gpus != world.size() || std::env::var_os(STARTED).is_some();
        let key = RandomState::new().hash_one(std::process::id()).to_string();
        if gpus == world.size() {
            return Ok(Ranks { world, is_started_here, key, children: Vec::new() });
        }
        if world.size() > 1 {
            let problem =
                format!("the launcher has started {} processes; omit it, or make both equal", world.size());
            return Err(TrainError::setting("gpus", gpus, problem).into());
        }
        let port = free_port().context("could not find a free port for the processes of --gpus")?;
        let (time_limit, join_limit) = (world.time_limit(), world.join_limit());
        let world = World::new(0, gpus, 0, HERE, port)?;
        let world = world.with_time_limit(time_limit).with_join_limit(join_limit).with_key(&key);
        Ok(Ranks { world, is_started_here, key, children: Vec::new() })
    }

    /// Starts the other processes, unless a launcher has. They run this program with the same arguments and print only
    /// errors.
    pub fn start(&mut self) -> anyhow::Result<()> {
        let (size, (_, port)) = (self.world.size(), self.world.address());
        if !(self.is_started_here && self.is_first()) {
            return Ok(());
        }
        let program = std::env::current_exe().context("could not find this program's file")?;
        for rank in 1..size {
            let child = Command::new(&program)
                .args(std::env::args_os().skip(1))
                .envs([("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", size)].map(in_words))
                .env("MASTER_ADDR", HERE)
                .env(STARTED, "1")
                .env("FERROWARP_COLLECTIVE_PORT", port.to_string())
                .env("FERROWARP_COLLECTIVE_KEY", &self.key)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .with_context(|| format!("could not start the process of rank {rank}"))?;
            self.children.push(child);
        }
        Ok(())
    }

    /// Whether this process shows the run and writes its files.
    pub fn is_first(&self) -> bool {
        self.world.rank() == 0
    }

    /// The device of this rank: the GPU with its number on the machine.
    pub fn open(&self, choice: DeviceChoice) -> Result<(Device, String), DeviceError> {
        let ordinal = self.world.local_rank();
        if choice == DeviceChoice::Cpu || ordinal == 0 {
            return device::open(choice);
        }
        let opened = Device::cuda(ordinal);
        match opened {
            Ok(device) => {
                let line = format!("running on {} (CUDA device {ordinal})", device.name());
                Ok((device, line))
            }
            // A launcher may show each process only its own GPU.
            Err(DeviceError::NoDevice { count: 1, .. }) if !self.is_started_here => device::open(choice),
            Err(DeviceError::NoDriver(_) | DeviceError::PtxMissing { .. })
                if choice == DeviceChoice::Auto =>
            {
                device::open(choice)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks that several ranks can train with these settings.
    pub fn check(&self, config: &Config, has_seeds: bool) -> anyhow::Result<()> {
        let size = self.world.size();
        if size == 1 {
            return Ok(());
        }
        if !config.pipeline.is_parallel() {
            let problem = "several devices train with naive or deferred, whose gradients are in memory before the step; \
                           choose one of them, or train on one device";
            return Err(TrainError::setting("pipeline", config.pipeline.name(), problem).into());
        }
        if config.batch_size.get() < size as usize {
            let problem =
                format!("each of {size} devices needs an image of each batch; choose at least {size}");
            return Err(TrainError::setting("batch-size", config.batch_size, problem).into());
        }
        for (flag, is_set) in
            [("seeds", has_seeds), ("timeline", config.timeline.is_some()), ("profile", config.profile)]
        {
            anyhow::ensure!(!is_set, "--{flag} works on one device, not on {size}; omit it, or --gpus");
        }
        Ok(())
    }

    /// The default pipeline of a run on several devices.
    pub fn default_pipeline(&self) -> Option<Pipeline> {
        (self.world.size() > 1).then_some(Pipeline::Deferred)
    }

    /// Connects the ranks; returns `None` if there is only one.
    pub fn connect(&self, device: &Device) -> Result<Option<Arc<Communicator>>, CollectiveError> {
        match self.world.size() {
            1 => Ok(None),
            _ => Communicator::connect(&self.world, device).map(|communicator| Some(Arc::new(communicator))),
        }
    }

    /// Waits for the processes that this one has started. An error names the first one that failed.
    pub fn wait(mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + self.world.time_limit() + GRACE;
        for (child, rank) in self.children.iter_mut().zip(1..) {
            let status = loop {
                match child.try_wait().with_context(|| format!("could not wait for rank {rank}"))? {
                    Some(status) => break status,
                    None if Instant::now() > deadline => {
                        anyhow::bail!("rank {rank} did not end after the run; it is killed");
                    }
                    None => thread::sleep(GLANCE),
                }
            };
            anyhow::ensure!(status.success(), "rank {rank} ended with {status}; see its error above");
        }
        Ok(())
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        // After an error on this rank, the others end with an error that names this rank.
        let deadline = Instant::now() + Duration::from_secs(1);
        while Instant::now() < deadline
            && self.children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None)))
        {
            thread::sleep(GLANCE);
        }
        for child in &mut self.children {
            if let Ok(None) = child.try_wait() {
                // Errors are ignored: the process may have just ended.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

fn in_words((name, number): (&'static str, u32)) -> (&'static str, String) {
    (name, number.to_string())
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
