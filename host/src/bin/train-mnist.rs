//! Trains a network of fully connected layers on MNIST, on a GPU or on the CPU.

use std::io::{self, Stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use ferrowarp::data::{self, Mnist};
use ferrowarp::device::{self, DeviceChoice};
use ferrowarp::model::Pipeline;
use ferrowarp::report::{self, Console};
use ferrowarp::train::{self, Config, Outcome, Start};

/// Train a network of fully connected layers on MNIST
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Where the kernels run
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,

    /// Folder with the data: the four IDX files (plain or .gz), or mnist_train.csv and mnist_test.csv [default:
    /// data/mnist, fetched when it is not there]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Widths of the hidden layers [default: 300,100, or those of the loaded weights]
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',', num_args = 1)]
    hidden: Option<Vec<usize>>,

    /// Images in a batch
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true)]
    batch_size: usize,

    /// Epochs to train; 0 with --load only tests
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true)]
    epochs: u32,

    /// Learning rate in the first epoch
    #[arg(long, value_name = "RATE", default_value_t = 0.3, allow_negative_numbers = true)]
    lr: f32,

    /// Factor on the learning rate after each epoch; 1 keeps it
    #[arg(long, value_name = "FACTOR", default_value_t = 0.7, allow_negative_numbers = true)]
    lr_decay: f32,

    /// Momentum of the gradient descent, at least 0 and below 1
    #[arg(long, value_name = "FACTOR", default_value_t = 0.0, allow_negative_numbers = true)]
    momentum: f32,

    /// Seed of the first weights and of the shuffling [default: 0, or that of the loaded weights]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,

    /// Which kernels: one step each, or tiled and fused
    #[arg(long, value_enum, default_value_t = Pipeline::Fused)]
    pipeline: Pipeline,

    /// Write a JSON object per epoch
    #[arg(long, value_name = "FILE.jsonl")]
    metrics: Option<PathBuf>,

    /// Write the weights at the end, for PyTorch and for `predict`
    #[arg(long, value_name = "FILE.safetensors")]
    save: Option<PathBuf>,

    /// Start from these weights instead of random ones
    #[arg(long, value_name = "FILE.safetensors")]
    load: Option<PathBuf>,

    /// Draw the curves of loss and accuracy
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

impl Args {
    fn config(&self) -> Config {
        Config {
            hidden: self.hidden.clone(),
            batch_size: self.batch_size,
            epochs: self.epochs,
            lr: self.lr,
            lr_decay: self.lr_decay,
            momentum: self.momentum,
            seed: self.seed,
            metrics: self.metrics.clone(),
            save: self.save.clone(),
            load: self.load.clone(),
            plot: self.plot.clone(),
            ..Config::new(self.pipeline)
        }
    }
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return report::usage_exit_code(&error),
    };
    report::exit_code(train_mnist(&args))
}

fn train_mnist(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let config = args.config();
    let start = Start::prepare(&config)?;
    let mut console = Console::new(io::stdout());

    let (device, why) = device::open(args.device)?;
    console.line(why)?;
    let (dir, fetch) = data_dir(args.data.as_deref())?;
    let before_load = Instant::now();
    let mnist = data::load(&dir)?;
    let load = before_load.elapsed();
    introduce(&mut console, &mnist, &dir)?;

    let mut outcome = train::run(&device, &mnist, &config, start, &mut console)?;
    outcome.times.fetch = fetch;
    outcome.times.load = load;
    outcome.times.total = started.elapsed();
    conclude(&mut console, &config, &outcome)
}

/// The folder the data are in, and how long it took to fetch them: the folder that nobody named is filled when it
/// holds no complete data set.
fn data_dir(named: Option<&Path>) -> anyhow::Result<(PathBuf, Duration)> {
    if let Some(dir) = named {
        return Ok((dir.to_owned(), Duration::ZERO));
    }
    let here =
        std::env::current_dir().context("could not find the current folder; name the data with --data")?;
    let dir = data::default_dir(&here);
    let started = Instant::now();
    let fetched = data::fetch_if_missing(&dir, &data::Source::defaults())?;
    Ok((dir, if fetched { started.elapsed() } else { Duration::ZERO }))
}

fn introduce(console: &mut Console<Stdout>, mnist: &Mnist, dir: &Path) -> anyhow::Result<()> {
    let (train, test) = (&mnist.train, &mnist.test);
    console.line(format_args!(
        "{} training and {} test images of {} x {} pixels from {}",
        train.len(),
        test.len(),
        train.rows,
        train.cols,
        dir.display()
    ))?;
    Ok(())
}

fn conclude(console: &mut Console<Stdout>, config: &Config, outcome: &Outcome) -> anyhow::Result<()> {
    let test = outcome.test;
    console.line(format_args!(
        "test accuracy {:.2} % ({} of {} images), test loss {:.4}\n\n{}",
        100.0 * test.accuracy(),
        test.correct,
        test.images,
        test.loss,
        outcome.times
    ))?;
    for (what, path) in [("weights", &config.save), ("metrics", &config.metrics), ("plot", &config.plot)] {
        if let Some(path) = path {
            console.line(format_args!("{what} in {}", path.display()))?;
        }
    }
    Ok(())
}
