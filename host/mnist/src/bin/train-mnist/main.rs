//! Trains a network of fully connected layers on MNIST, on a GPU or on the CPU.

mod args;
mod ranks;
mod seeds;
mod stop;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use ferrowarp_data::{DataError, LazyMnist};
use ferrowarp_device::collective::Communicator;
use ferrowarp_device::device;
use ferrowarp_mnist::Console;
use ferrowarp_mnist::checkpoint::{self, Found};
use ferrowarp_mnist::model::Pipeline;
use ferrowarp_mnist::train::{self, Config, Observer, Outcome, Silent, Start, TimeToAccuracy, TrainError};
use ferrowarp_report::print_note;

use args::Args;
use ranks::Ranks;
use stop::Signals;

fn main() -> ExitCode {
    let args = match Args::read() {
        Ok(args) => args,
        Err(error) => return ferrowarp_report::usage_exit_code(&error),
    };
    match train_mnist(&args) {
        Ok(Ended::Complete) => ExitCode::SUCCESS,
        Ok(Ended::Stopped(code)) => ExitCode::from(code),
        Err(error) => {
            let is_usage = matches!(error.downcast_ref(), Some(TrainError::Usage { .. }));
            let code = ferrowarp_report::exit_code(Err(error), device::exit_if_hung);
            // The same code as for arguments that clap refuses.
            if is_usage { ExitCode::from(2) } else { code }
        }
    }
}

/// How a run ended.
enum Ended {
    Complete,
    /// By a signal, with this exit code.
    Stopped(u8),
}

fn train_mnist(args: &Args) -> anyhow::Result<Ended> {
    let started = Instant::now();
    let found = args.resume.as_deref().map(checkpoint::newest).transpose()?;
    let mut config = args.config(found.as_ref())?;
    let mut ranks = Ranks::new(args.gpus)?;
    let start = match found {
        Some(found) => Start::resume(&config, found)?,
        None => Start::prepare(&config)?,
    };
    let out: Box<dyn Write> = if ranks.is_first() { Box::new(io::stdout()) } else { Box::new(io::sink()) };
    let mut console = Console::new(out);

    let (mut device, why) = ranks.open(args.device).context(ferrowarp_mnist::NO_DEVICE)?;
    if let Some(limit) = args.time_limit {
        device = device.with_time_limit(limit);
    }
    console.line(why)?;
    config.pipeline = args.pipeline_for(&device, &config, ranks.default_pipeline());
    ranks.check(&config, args.seeds().is_some())?;
    if ranks.world.size() > 1 {
        console.line(format_args!("one of {} processes that train together", ranks.world.size()))?;
    }
    args.note(&config).map_or(Ok(()), |note| console.line(note))?;
    // Rank 0 fetches the data, and the others wait for it.
    let mut communicator = if ranks.is_first() { None } else { ranks.connect(&device)? };
    let signals = Signals::listen().context("could not prepare for Ctrl-C")?;
    let Some((dir, fetch)) = data_dir(args.data.as_deref(), &signals)? else {
        return Ok(Ended::Stopped(signals.exit_code()));
    };
    if ranks.is_first() {
        ranks.start()?;
        communicator = signals.ending_at_once(|| ranks.connect(&device))?;
    } else {
        config = Config { metrics: None, save: None, plot: None, checkpoints: None, ..config };
    }
    let before_load = Instant::now();
    let mnist = load_data(args, &config, &dir)?;
    let load = before_load.elapsed();
    introduce(&mut console, &mnist, &dir, args.hold_out.is_some())?;
    if let Some(found) = start.resumed() {
        introduce_resumed(&mut console, found, &train::differences(&device, &config, found))?;
    }

    if let Some(seeds) = args.seeds() {
        let trained = seeds::train(&device, &mnist, &config, seeds, (&mut console, &signals));
        return match trained.as_ref().err().and_then(seeds::as_stopped) {
            Some(stopped) => Ok(interrupted(&signals, stopped)),
            None => trained.map(|()| Ended::Complete),
        };
    }
    let mut silent = Silent;
    let shown: &mut dyn Observer = if ranks.is_first() { &mut console } else { &mut silent };
    let mut observer = signals.observe(shown, communicator.as_deref());
    let result = train::run_as_rank(&device, &mnist, &config, start, &mut observer, communicator.as_ref());
    drop(observer);
    let mut outcome = match result {
        Ok(outcome) => outcome,
        Err(TrainError::Stopped { .. }) if !ranks.is_first() => {
            return Ok(Ended::Stopped(signals.exit_code()));
        }
        Err(error @ TrainError::Stopped { .. }) => {
            return Ok(interrupted(&signals, format_args!("{error}; {}", how_to_go_on(&config))));
        }
        Err(error) => {
            // The others learn at once that this rank has failed.
            communicator.and_then(Arc::into_inner).into_iter().for_each(Communicator::abort);
            return Err(tell_how_to_go_on(error, &config).into());
        }
    };
    drop(communicator);
    ranks.wait()?;
    outcome.times.fetch = fetch;
    outcome.times.load = load;
    outcome.times.total = started.elapsed();
    conclude(&mut console, &config, &outcome)?;
    Ok(Ended::Complete)
}

/// Prints why a signal has ended the run.
fn interrupted(signals: &Signals, why: impl std::fmt::Display) -> Ended {
    print_note(format_args!("interrupted: {why}"));
    Ended::Stopped(signals.exit_code())
}

/// Loads the data, after checking that the run overwrites none of their files.
fn load_data(args: &Args, config: &Config, dir: &Path) -> anyhow::Result<LazyMnist> {
    if let Some(files) = ferrowarp_data::find(dir)? {
        config.check_spared(files.paths())?;
    }
    let mnist = match config.pipeline {
        Pipeline::Overlapped => ferrowarp_data::open(dir)?,
        _ => ferrowarp_data::load(dir)?.into(),
    };
    let Some(images) = args.hold_out else { return Ok(mnist) };
    mnist.hold_out(images).map_err(|error| match error {
        DataError::HoldOut { .. } => TrainError::setting("hold-out", images, error.to_string()).into(),
        error => error.into(),
    })
}

fn how_to_go_on(config: &Config) -> String {
    match &config.checkpoints {
        Some(checkpoints) => {
            format!("continue with:\n    {}", stop::resume_command(std::env::args_os(), &checkpoints.dir))
        }
        None => "to be able to continue next time, pass a folder with --checkpoint".to_owned(),
    }
}

/// Adds how to resume to an error that the training did not cause, if there is a checkpoint.
fn tell_how_to_go_on(error: TrainError, config: &Config) -> TrainError {
    let is_from_outside = match &error {
        TrainError::Model(_) | TrainError::Output(_) | TrainError::Report(_) => true,
        TrainError::Checkpoint(error) => error.is_unwritten(),
        _ => false,
    };
    let newest =
        config.checkpoints.as_ref().and_then(|checkpoints| checkpoint::newest(&checkpoints.dir).ok());
    if let (true, Some(found)) = (is_from_outside, newest) {
        let path = found.path.display();
        print_note(format_args!("note: {path} is intact; {}", how_to_go_on(config)));
    }
    error
}

/// Returns the folder with the data, and the time it took to fetch them. Fetches the data if the default folder has no
/// complete data set. Returns `None` if a signal has stopped that.
fn data_dir(named: Option<&Path>, signals: &Signals) -> anyhow::Result<Option<(PathBuf, Duration)>> {
    if let Some(dir) = named {
        return Ok(Some((dir.to_owned(), Duration::ZERO)));
    }
    let here =
        std::env::current_dir().context("could not find the current folder; name the data with --data")?;
    let dir = ferrowarp_data::default_dir(&here);
    let started = Instant::now();
    let is_stopped = || signals.arrived().is_some();
    match ferrowarp_data::fetch_if_missing(&dir, &ferrowarp_data::Source::defaults(), &is_stopped) {
        Ok(fetched) => Ok(Some((dir, if fetched { started.elapsed() } else { Duration::ZERO }))),
        Err(error @ DataError::Interrupted) => {
            print_note(format_args!("interrupted: {error}"));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn introduce(
    console: &mut Console<Box<dyn Write>>,
    mnist: &LazyMnist,
    dir: &Path,
    is_held_out: bool,
) -> anyhow::Result<()> {
    let (train, test) = (&mnist.train, &mnist.test);
    let (rows, cols) = train.sides();
    let whence = if is_held_out { ", the latter held out from the training images" } else { "" };
    console.line(format_args!(
        "{} training and {} test images of {rows} x {cols} pixels from {}{whence}",
        train.len(),
        test.len(),
        dir.display()
    ))?;
    Ok(())
}

/// Prints what a resumed run continues from, and what differs from the original run.
fn introduce_resumed(
    console: &mut Console<Box<dyn Write>>,
    found: &Found,
    differences: &[String],
) -> anyhow::Result<()> {
    for skipped in &found.skipped {
        print_note(format_args!("warning: {skipped}; continuing from an older checkpoint"));
    }
    let snapshot = &found.snapshot;
    console.line(format_args!(
        "continuing from {}: {} steps are done, {} of them in epoch {}",
        found.path.display(),
        snapshot.steps(),
        snapshot.steps_in_epoch(),
        snapshot.epoch(),
    ))?;
    differences.iter().try_for_each(|difference| console.line(difference))?;
    Ok(())
}

fn conclude(console: &mut Console<Box<dyn Write>>, config: &Config, outcome: &Outcome) -> anyhow::Result<()> {
    let test = outcome.test;
    console.line(format_args!(
        "test accuracy {:.2} % ({} of {} images), test loss {:.4}\n\n{}",
        100.0 * test.accuracy(),
        test.correct,
        test.images,
        test.loss,
        outcome.times
    ))?;
    if let Some(profile) = &outcome.profile {
        console.line(profile)?;
    }
    if let Some(target) = config.target_accuracy {
        console.line(match outcome.reached {
            Some(TimeToAccuracy { epochs, training, tests }) => format!(
                "{target} % reached in epoch {epochs} of the run: {:.3} s of training, without {:.3} s of tests",
                training.as_secs_f64(),
                tests.as_secs_f64()
            ),
            None => format!("{target} % not reached; train longer with --epochs"),
        })?;
    }
    for (what, path) in [
        ("weights", &config.save),
        ("metrics", &config.metrics),
        ("plot", &config.plot),
        ("timeline", &config.timeline),
    ] {
        if let Some(path) = path {
            console.line(format_args!("{what} in {}", path.display()))?;
        }
    }
    Ok(())
}
