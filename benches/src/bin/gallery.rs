//! Runs the lessons of the gallery on the available device, and writes the measurements as JSON.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Parser;
use cuda_std::testing::Counter;
use ferrowarp::device::{Device, DeviceChoice, exit_if_hung, open};
use ferrowarp_benches::gallery::{count_of, measured, planned, scale};
use ferrowarp_benches::results::Results;
use ferrowarp_benches::roofline;
use ferrowarp_cases::emulated;
use ferrowarp_cases::gallery::{LESSONS, Lesson, Scale, Trial};
use ferrowarp_report::gallery::Entry;
use ferrowarp_report::{output_file, pool, print_note};

/// Runs the lessons of the gallery, and writes what it measured as JSON.
#[derive(Parser)]
struct Arguments {
    /// The lessons [default: all]
    #[arg(value_name = "LESSON")]
    lessons: Vec<String>,
    /// Run each rung on its first problem and its last one only.
    #[arg(long)]
    quick: bool,
    /// Count what warps do, on the emulator of the kernels' PTX, in place of timing them.
    #[arg(long, conflicts_with = "device")]
    count: bool,
    /// Run nothing: write each trial of a GPU with its bytes, its operations and its predicted counts.
    #[arg(long, conflicts_with_all = ["device", "count", "quick"])]
    theory: bool,
    /// Launch each trial that is counted once on the device, and time nothing: for Nsight Compute.
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Place every kernel of the workspace under a roofline, in place of the lessons: with `--count` by what the emulator
    /// counts, else by its time on a GPU.
    #[arg(long, conflicts_with_all = ["lessons", "quick"])]
    roofline: bool,
    /// Where kernels run.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    ferrowarp_report::exit_code(pool::install(|| run(&arguments)), exit_if_hung)
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = &arguments.out;
    output_file::check_destination(out).with_context(|| {
        format!("--out {} cannot be used: no file can be written there; name another one", out.display())
    })?;
    if arguments.roofline {
        return place_all(arguments);
    }
    let lessons = chosen(&arguments.lessons)?;
    if arguments.theory {
        let mut results = Results::new(&Device::cpu())?;
        for lesson in lessons {
            results.entries.extend((lesson.trials)(Scale::Gpu).iter().map(|trial| planned(&lesson, trial)));
        }
        return results.write_to(&arguments.out);
    }
    let counter = Counter::new();
    let (device, scale) = if arguments.count {
        print_note("counting on the emulator of the kernels' PTX");
        (emulated::counting(&counter)?, Scale::Count)
    } else {
        let (device, why) = open(arguments.device)?;
        print_note(why);
        let scale = if arguments.once { Scale::Count } else { scale(&device) };
        (device, scale)
    };
    let mut results = Results::new(&device)?;
    let begin = Instant::now();
    for lesson in lessons {
        print_note(format_args!("{} ({:.1} s)", lesson.name, begin.elapsed().as_secs_f64()));
        let mut trials = (lesson.trials)(scale);
        if arguments.quick {
            let rungs: Vec<&str> = trials.iter().map(|trial| trial.rung).collect();
            let mut place = 0..;
            trials.retain(|_| place.next().is_some_and(|i| is_at_an_end(&rungs, i)));
        }
        for trial in trials {
            let entry = if arguments.count {
                counted(&lesson, &trial, &device, &counter)
            } else if arguments.once {
                launched(&lesson, &trial, &device)
            } else {
                measured(&lesson, &trial, &device)
            };
            tell(&entry);
            results.entries.push(entry);
            device.synchronize().context("the device is lost")?;
        }
    }
    results.write_to(&arguments.out)?;
    print_note(format_args!("done ({:.1} s)", begin.elapsed().as_secs_f64()));
    let failed = results.entries.iter().filter(|entry| entry.error.is_some()).count();
    ensure!(failed == 0, "{failed} of the trials failed, as said above");
    Ok(())
}

/// Places every kernel under a roofline.
fn place_all(arguments: &Arguments) -> anyhow::Result<()> {
    let tell = |words: &str| print_note(format_args!("  {words}"));
    let (device, entries) = if arguments.count {
        print_note("counting on the emulator of the kernels' PTX");
        (Device::cpu(), roofline::counted(tell)?)
    } else {
        let (device, why) = open(arguments.device)?;
        ensure!(device.is_cuda(), "{why}, and a roofline is a GPU's; count with --count");
        print_note(why);
        let entries = roofline::timed(&device, arguments.once, tell);
        (device, entries)
    };
    let mut results = Results::new(&device)?;
    results.entries = entries;
    results.write_to(&arguments.out)
}

/// Counts the trial. Returns its entry.
fn counted(lesson: &Lesson, trial: &Trial, device: &Device, counter: &Counter) -> Entry {
    let mut entry = planned(lesson, trial);
    match count_of(trial, device, counter) {
        Ok(counted) => entry.counted = counted,
        Err(error) => entry.error = Some(format!("{error:#}")),
    }
    entry
}

/// Launches the trial once, if it launches anything. Returns its entry.
fn launched(lesson: &Lesson, trial: &Trial, device: &Device) -> Entry {
    let mut entry = planned(lesson, trial);
    let launch = || -> anyhow::Result<()> {
        let Some(problem) = trial.problem() else { return Ok(()) };
        problem.place(device)?.launch()?;
        Ok(device.synchronize()?)
    };
    entry.error = launch().err().map(|error| format!("{error:#}"));
    entry
}

/// Prints an entry's result while others are still running.
fn tell(entry: &Entry) {
    let Entry { name, problem, error, microseconds, counted, lacking, .. } = entry;
    match (error, microseconds, counted) {
        (Some(error), ..) => print_note(format_args!("  {name} {problem}: {error}")),
        (None, Some(time), _) => print_note(format_args!("  {name} {problem}: {time:.2} us")),
        (None, None, Some(_)) => print_note(format_args!("  {name} {problem}: counted")),
        (None, None, None) => {
            let why = lacking.as_ref().map_or_else(String::new, |lacking| format!(": {lacking}"));
            print_note(format_args!("  {name} {problem}: not on this device{why}"));
        }
    }
}

/// Whether the entry at `i` is the first or the last of its name.
fn is_at_an_end(names: &[&str], i: usize) -> bool {
    let is_same = |name: &&str| *name == names[i];
    names.iter().position(is_same) == Some(i) || names.iter().rposition(is_same) == Some(i)
}

/// The lessons of these names; all if there are none.
fn chosen(names: &[String]) -> anyhow::Result<Vec<Lesson>> {
    if names.is_empty() {
        return Ok(LESSONS.to_vec());
    }
    let known = || LESSONS.iter().map(|lesson| lesson.name).collect::<Vec<_>>().join(", ");
    let named = names.iter().map(|name| {
        let lesson = LESSONS.iter().copied().find(|lesson| lesson.name == name);
        lesson.with_context(|| format!("there is no lesson {name}; there are {}", known()))
    });
    named.collect()
}
