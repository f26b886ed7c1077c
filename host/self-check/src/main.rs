//! Runs every kernel on a device and compares with the CPU executor and with references in f64.
//!
//! Prints a line per case and ends with a line `N passed, N failed`; the exit code is 1 if any failed.

mod faults;
mod mechanics;
mod random;
mod recording;
mod streams;
mod stress;

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use cuda_std::launch::Limits;
use cuda_std::simt::{Executor, parse_seed};
use ferrowarp::device::{
    Device, DeviceChoice, DeviceError, PtxTarget, exit_if_hung, named_archs, open, parse_time_limit,
};
use ferrowarp_cases::softmax::{self, ladder};
use ferrowarp_cases::{
    Case, Scope, Setting, Share, attention, axis, gallery, layer, matmul, norm, queued, soundness,
};
use ferrowarp_report::{OutputError, output_file, pool, print_line};

/// Runs every kernel on a device and checks its results.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The device to check.
    #[arg(long, value_enum, default_value_t, global = true)]
    device: DeviceChoice,
    /// On the CPU, run the kernels that a GPU of this architecture gets, such as compute_86 [default: the newest in
    /// FERROWARP_ARCH]. On a GPU, set FERROWARP_ARCH instead.
    #[arg(long, value_name = "ARCH", global = true)]
    arch: Option<PtxTarget>,
    /// Stop with an error if the GPU work of one check takes longer than this many seconds [default: no limit].
    #[arg(long, value_name = "SECONDS", value_parser = parse_time_limit, global = true)]
    time_limit: Option<Duration>,
    /// Skip the check that a panicking kernel is reported. It leaves a faulted GPU context (for compute-sanitizer).
    #[arg(long)]
    no_fault_checks: bool,
    /// Do not fill the GPU's local and shared memory with 0xab before each launch (for compute-sanitizer).
    #[arg(long, global = true)]
    no_soil: bool,
    /// Limit a softmax operation to ROWS rows per launch [default: all rows of a check, about 20]. For compute-sanitizer's
    /// synccheck, which reports warps of later clusters of 16 blocks as diverged.
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    most_rows: Option<u32>,
    /// Check only every Nth shape of the network's and the ladder's kernels (for compute-sanitizer, which is slow).
    #[arg(long, value_name = "N", default_value = "1")]
    every: NonZeroUsize,
    /// Check only kernels, operations and faults whose name contains NAME.
    #[arg(long, value_name = "NAME", global = true)]
    only: Option<String>,
    /// Also run each kernel NUMBER times, and compare the results bit for bit.
    #[arg(long, value_name = "NUMBER", default_value = "2", value_parser = clap::value_parser!(u32).range(2..))]
    runs: u32,
    /// Instead, run every kernel on small shapes under NUMBER shuffled schedules of the CPU executor, and compare with the
    /// fixed order bit for bit.
    #[arg(long, value_name = "NUMBER")]
    seeds: Option<u64>,
    /// The first seed: decimal, or hexadecimal after 0x.
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = parse_seed, requires = "seeds")]
    first: u64,
    /// Instead, run every kernel on small shapes with one OS thread per GPU thread. For Miri and the sanitizers, which end
    /// the program when they find an error.
    #[arg(long, conflicts_with = "seeds")]
    threads: bool,
    /// Run only part K of N of the cases, counted from 0; with `small`, one case of each kernel.
    #[arg(long, value_name = "K/N", default_value = "all", conflicts_with = "seeds")]
    part: Share,
    /// Print the cases instead of running them.
    #[arg(long, conflicts_with_all = ["seeds", "threads"])]
    list: bool,
    /// Run the kernels once and judge no result, for a driver that computes none.
    #[arg(long, hide = true)]
    launch_only: bool,
    /// Make a kernel panic and print the device's report.
    #[arg(long, hide = true)]
    provoke_fault: bool,
    /// Record kernels before any is launched, and print the time that it takes.
    #[arg(long, hide = true)]
    record_first: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    Random(random::Random),
    Faults(faults::Faults),
}

/// The multiprocessors that kernels are chosen for with `--arch`: those of an H200.
const MULTIPROCESSORS: usize = 132;

/// Assesses a case: returns its largest error as a share of the tolerance.
type Assess = fn(&Case, &Device) -> Result<f64>;

/// The numbers of cases by outcome.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

impl Tally {
    fn count(&mut self, case: &str, result: Result<String>) -> Result<(), OutputError> {
        match result {
            Ok(note) => {
                self.passed += 1;
                print_line(format_args!("ok    {case}{note}"))
            }
            Err(error) => {
                self.failed += 1;
                print_line(format_args!("FAIL  {case}: {error:#}"))
            }
        }
    }
}

/// Fails if no file can be written to `path`, the value of `--json`.
fn check_destination(path: &Path) -> Result<()> {
    output_file::check_destination(path).with_context(|| {
        format!("--json {} cannot be used: no file can be written there; name another one", path.display())
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Miri and the sanitizers should see only the kernel's threads.
    let result = if arguments.threads { run(&arguments) } else { pool::install(|| run(&arguments)) };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            exit_if_hung(1);
            ExitCode::FAILURE
        }
        Err(error) => ferrowarp_report::exit_code(Err(error), exit_if_hung),
    }
}

/// What the driver reports of a GPU; `None` for the CPU.
fn properties(device: &Device) -> Result<Option<String>> {
    let (Some(l2), Some(free), Some(peaks)) = (device.l2_bytes()?, device.free_bytes()?, device.peaks()?)
    else {
        return Ok(None);
    };
    let limits = device.limits();
    Ok(Some(format!(
        "{} multiprocessors with {} threads each, {} threads per block with up to {} KiB of dynamic shared memory, {} MiB of L2, \
         {} GiB of memory free, by its clocks {:.0} GB/s and {:.1} TFLOP/s; cargo xtask build-ptx reports the occupancy of kernels",
        device.multiprocessors(),
        limits.max_resident_threads / device.multiprocessors().max(1) as u64,
        limits.max_threads_per_block,
        limits.max_dynamic_shared_bytes >> 10,
        l2 >> 20,
        free >> 30,
        peaks.bytes_per_second / 1e9,
        peaks.flops / 1e12,
    )))
}

/// Runs the checks; returns whether all passed.
fn run(arguments: &Arguments) -> Result<bool> {
    let chosen = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    if let Some(seeds) = arguments.seeds {
        return stress::run(seeds, arguments.first, &chosen);
    }
    if arguments.threads {
        let Share::Part { part, parts } = arguments.part else {
            bail!("--part small is not for --threads; pass K/N, like 0/4");
        };
        stress::on_threads((part, parts), &chosen)?;
        return Ok(true);
    }
    if let Some(Command::Faults(faults)) = &arguments.command {
        return faults.run(arguments.device, arguments.only.as_deref());
    }
    let (mut device, mut line) = open(arguments.device).map_err(|error| match error {
        // The CPU refuses it too.
        DeviceError::Variable { .. } => anyhow::Error::from(error),
        error => anyhow::Error::from(error).context("could not open a GPU; run on the CPU with --device cpu"),
    })?;
    if device.is_cuda() {
        if let Some(arch) = arguments.arch {
            bail!("--arch {arch} is for the CPU; add --device cpu, or set FERROWARP_ARCH={arch} for the GPU");
        }
    } else if let Some(arch) = arguments.arch.or(named_archs()?.pop()) {
        let executor = Executor::new().with_limits(Limits::of_gpu(arch.architecture));
        device = Device::cpu_with(executor.with_workers(MULTIPROCESSORS));
        line = format!("{line}; with the kernels of {arch}");
    }
    if let Some(limit) = arguments.time_limit {
        device = device.with_time_limit(limit);
    }
    if !arguments.no_soil {
        device = device.with_soiled_memory()?;
    }
    if arguments.provoke_fault {
        mechanics::provoke_fault(&device, arguments.device)?;
        return Ok(true);
    }
    if arguments.record_first {
        recording::first(&device)?;
        return Ok(true);
    }
    print_line(line)?;
    if let Some(properties) = properties(&device)? {
        print_line(properties)?;
    }
    if let Some(Command::Random(random)) = &arguments.command {
        return random.run(&device, arguments.only.as_deref());
    }
    let mut cases = cases(arguments, &device);
    if arguments.launch_only {
        let launch: Assess = |case, device| case.run(device).map(|_| 0.0);
        cases.iter_mut().for_each(|(_, assess)| *assess = launch);
    }
    cases.retain(|(case, _)| chosen(&case.to_string()));
    ensure!(
        !cases.is_empty(),
        "no name of a kernel or operation contains `{}`",
        arguments.only.as_deref().unwrap_or_default()
    );
    if arguments.list {
        cases.iter().try_for_each(|(case, _)| print_line(case))?;
        return Ok(true);
    }
    let chosen = arguments.part.of(cases.iter().map(|(case, _)| case));
    let cases = (0..).zip(cases).filter(|(i, _)| chosen.binary_search(i).is_ok()).map(|(_, case)| case);
    let mut tally = Tally::default();
    // Each case is dropped with its results when it is done.
    for (case, assess) in cases {
        let mut result = assess(&case, &device);
        if result.is_ok() && arguments.runs > 2 {
            result = case.repeat(&device, arguments.runs).and(result);
        }
        tally.count(&case.to_string(), result.map(told))?;
        // A failed GPU would fail every later check.
        device.synchronize()?;
    }
    if arguments.only.is_none() {
        for (name, check) in mechanics::MECHANICS {
            tally.count(name, check(&device).map(|()| String::new()))?;
        }
        let target = soundness::Target::new(&device)?;
        for (name, attack) in soundness::ATTACKS {
            tally.count(name, attack(&target).map(|()| String::new()))?;
        }
        if device.is_cuda() && !arguments.no_soil {
            let result = mechanics::soiled(&device);
            tally.count("memory that was not written is soiled", result.map(|()| String::new()))?;
        }
        tally.count("no operation waits", queued::check(&device))?;
        let result = recording::is_right(arguments.device);
        tally.count("a first recording loads its kernels", result.map(|()| String::new()))?;
        if !arguments.no_fault_checks {
            let result = mechanics::panicking_kernel(arguments.device);
            tally.count("a panicking kernel is reported", result.map(|()| String::new()))?;
        }
    }
    print_line(format_args!("{} passed, {} failed", tally.passed, tally.failed))?;
    Ok(tally.failed == 0)
}

/// The cases to run on the device.
fn cases(arguments: &Arguments, device: &Device) -> Vec<(Case, Assess)> {
    let mut of_layers = Vec::new();
    for problem in layer::problems().step_by(arguments.every.get()).map(Arc::new) {
        of_layers.extend(layer::cases(&problem, device.limits()));
        of_layers.extend(ladder::of_layer(&problem, device.limits()));
    }
    of_layers.extend(gallery::cases(Scope::Device, device.limits()));
    let most_rows = arguments.most_rows.map_or(usize::MAX, |rows| rows as usize);
    let mut others = ladder::cases(Scope::Device, device.limits(), |_| true);
    others.extend(softmax::cases(&Setting { most_rows, ..Setting::device(device) }));
    // The CPU would need minutes for a GPU's problems, so it gets small ones. `cargo test` runs others.
    let scope = if device.is_cuda() { Scope::Device } else { Scope::Small };
    let of_tiles = Setting { scope, ..Setting::device(device) };
    others.extend(matmul::cases(&of_tiles));
    others.extend(attention::cases(&of_tiles));
    others.extend(norm::cases(&of_tiles));
    others.extend(axis::cases(&of_tiles));
    // Wide rows and clusters take microseconds on a GPU but minutes on the CPU.
    let twice: Assess = |case, device| Ok(case.assess_twice(device)?.1);
    let of_layers = of_layers.into_iter().map(|case| (case, Case::assess_with_cpu as Assess));
    of_layers.chain(others.into_iter().map(|case| (case, twice))).collect()
}

/// Formats the largest error of a check.
fn told(worst: f64) -> String {
    if worst > 0.0 {
        format!(": off by {:.0}% of the tolerance", worst * 100.0)
    } else {
        ": exact".to_owned()
    }
}
