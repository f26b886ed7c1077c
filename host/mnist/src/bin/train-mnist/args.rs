//! The command line, and the settings derived from it and from a run to resume.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgGroup, CommandFactory as _, FromArgMatches as _, Parser};
use ferrowarp_device::device::{self, Device, DeviceChoice};
use ferrowarp_mnist::checkpoint::Found;
use ferrowarp_mnist::model::{Pipeline, Precision};
use ferrowarp_mnist::train::{Checkpoints, Config, DEFAULT_KEEP, TrainError};
use ferrowarp_mnist::{BatchSize, LrSchedule};

/// Train a network of fully connected layers on MNIST
#[derive(Parser)]
#[command(version, group = ArgGroup::new("checkpoints").multiple(true))]
pub struct Args {
    /// Where the kernels run
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,

    /// Train on this many GPUs of this machine, with a process for each and NVIDIA's NCCL between them. A batch is divided
    /// among them. torchrun, srun and mpirun start the processes without this option. For the pipelines naive and deferred
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus: Option<u32>,

    /// Stop with an error if the queued work of the GPU takes longer than this many seconds [default: no limit]. On the
    /// CPU, FERROWARP_KERNEL_SECONDS limits each launch
    #[arg(long, value_name = "SECONDS", value_parser = device::parse_time_limit)]
    pub time_limit: Option<Duration>,

    /// Folder with the data: the four IDX files (plain or .gz), or mnist_train.csv and mnist_test.csv [default:
    /// data/mnist, fetched if missing]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Hold out the last N training images for validation, and test on them instead of the test images. Use it to choose
    /// settings. Repeat it with --resume
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub hold_out: Option<usize>,

    /// Widths of the hidden layers, "" for no hidden layer [default: 300,100, or those of the loaded weights]
    #[arg(long, value_name = "WIDTHS", value_parser = parse_widths)]
    hidden: Option<Widths>,

    /// Images in a batch
    #[arg(long, value_name = "N", default_value_t = BatchSize::DEFAULT, allow_negative_numbers = true)]
    batch_size: BatchSize,

    /// Drop the last partial batch of each epoch (different images every epoch)
    #[arg(long)]
    drop_last: bool,

    /// Epochs to train; with --load, 0 only tests
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true)]
    epochs: u32,

    /// Initial learning rate [default: 0.3 * (1 - momentum)]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    lr: Option<f32>,

    /// How the learning rate changes
    #[arg(long, value_enum, default_value_t = LrSchedule::Exponential)]
    lr_schedule: LrSchedule,

    /// Fraction of the run, at least 0 and below 1, in which the learning rate rises linearly. The schedule covers the rest
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, allow_negative_numbers = true)]
    lr_warmup: f32,

    /// Factor on the learning rate after each epoch; only for --lr-schedule exponential
    #[arg(long, value_name = "FACTOR", default_value_t = 0.7, allow_negative_numbers = true)]
    lr_decay: f32,

    /// Momentum, at least 0 and below 1
    #[arg(long, value_name = "FACTOR", default_value_t = 0.0, allow_negative_numbers = true)]
    momentum: f32,

    /// Share of each target that is spread evenly over all classes, at least 0 and below 1, as in PyTorch's
    /// CrossEntropyLoss(label_smoothing=..). It affects the train loss, not the test loss
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_negative_numbers = true)]
    label_smoothing: f32,

    /// Seed of the initial weights and of the shuffling [default: 0, or that of the loaded weights]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,

    /// Stop after the first epoch with at least this accuracy on the test images, and print the time of training without the
    /// tests. --epochs is the limit
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true)]
    target_accuracy: Option<f64>,

    /// Train one network per seed, from FIRST to LAST inclusive, and print mean, minimum and maximum of the results. Writes
    /// no files
    #[arg(
        long,
        value_name = "FIRST..LAST",
        value_parser = parse_seeds,
        conflicts_with_all = ["seed", "load", "save", "metrics", "plot", "timeline", "profile", "checkpoint", "resume"]
    )]
    seeds: Option<Seeds>,

    /// Which kernels to use and how to queue them. All pipelines train the same network [default: resident on a GPU, fused
    /// on the CPU]
    #[arg(long, value_enum)]
    pipeline: Option<Pipeline>,

    /// Type to which operands of matrix multiplications are rounded. Accumulators and the weights in memory are f32
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,

    /// Write one JSON object per epoch
    #[arg(long, value_name = "FILE.jsonl")]
    metrics: Option<PathBuf>,

    /// Write the weights at the end or at Ctrl-C; PyTorch and `predict` read them
    #[arg(long, value_name = "FILE.safetensors")]
    save: Option<PathBuf>,

    /// Start from these weights, or from a checkpoint, instead of random weights
    #[arg(long, value_name = "FILE.safetensors")]
    load: Option<PathBuf>,

    /// Draw the curves of loss and accuracy
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,

    /// Draw a timeline of the first 64 steps of the second epoch (of the only one if there is one): decoding, copies,
    /// kernels, and the host queueing them and fetching results
    #[arg(long, value_name = "FILE.svg")]
    timeline: Option<PathBuf>,

    /// Print for each kernel the number of launches, the time, the bytes and operations it needs, and on a GPU the share of
    /// what its clocks allow. --metrics gets one line per kernel. The host waits for each launch, so nothing overlaps and
    /// the run takes longer. A graph or a launch of several steps is one line
    #[arg(long)]
    profile: bool,

    /// Write checkpoints into this folder, from which --resume continues after a crash or an interruption. With --resume the
    /// default is its folder
    #[arg(long, value_name = "DIR", group = "checkpoints")]
    checkpoint: Option<PathBuf>,

    /// Write a checkpoint every N steps (batches) [default: at the end of each epoch]
    #[arg(long, value_name = "N", requires = "checkpoints", allow_negative_numbers = true)]
    checkpoint_every: Option<u64>,

    /// Number of checkpoints to keep
    #[arg(
        long,
        value_name = "K",
        requires = "checkpoints",
        default_value_t = DEFAULT_KEEP,
        allow_negative_numbers = true
    )]
    checkpoint_keep: usize,

    /// Continue from the newest intact checkpoint in this folder as if the run had never stopped. Settings come from the
    /// checkpoint; another value is an error, except for --epochs, --device, the output files and --checkpoint-*. Repeat
    /// --target-accuracy
    #[arg(long, value_name = "DIR", group = "checkpoints", conflicts_with = "load")]
    pub resume: Option<PathBuf>,

    /// Arguments that are on the command line, by name.
    #[arg(skip)]
    given: Vec<String>,
}

/// A range of seeds, including the last one.
#[derive(Clone)]
struct Seeds(RangeInclusive<u64>);

/// Parses two numbers with two dots between them.
fn parse_seeds(text: &str) -> Result<Seeds, String> {
    let numbers =
        text.split_once("..").and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match numbers {
        Some((first, last)) if first < last => Ok(Seeds(first..=last)),
        Some((first, last)) => Err(format!("{first} is not below {last}; use --seed for a single seed")),
        None => Err(format!("`{text}` is not a range of seeds; write, for example, 1..8")),
    }
}

/// The widths of layers.
#[derive(Clone)]
struct Widths(Vec<usize>);

/// Parses numbers separated by commas, or an empty text.
fn parse_widths(text: &str) -> Result<Widths, String> {
    let words = text.split(',').filter(|_| !text.is_empty());
    let width = |word: &str| {
        word.parse().map_err(|_| format!("`{word}` is not a width; write, for example, 300,100 or \"\""))
    };
    words.map(width).collect::<Result<_, _>>().map(Widths)
}

impl Args {
    /// Reads the command line.
    pub fn read() -> Result<Args, clap::Error> {
        let matches = Args::command().try_get_matches()?;
        let given = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        let given = matches.ids().filter(given).map(ToString::to_string).collect();
        Ok(Args { given, ..Args::from_arg_matches(&matches)? })
    }

    /// The settings, from the command line, then the run to resume, then the defaults. The pipeline for the device is chosen
    /// later, by [`Self::pipeline_for`].
    pub fn config(&self, resumed: Option<&Found>) -> Result<Config, TrainError> {
        let mut config = match resumed {
            Some(found) => Config::of_run(found)?,
            // On a GPU, `pipeline_for` makes it `Resident`.
            None => Config::new(Pipeline::Fused),
        };
        config.pipeline = self.pipeline.unwrap_or(config.pipeline);
        let is_given = |name: &str| self.given.iter().any(|given| given == name);
        let counts = |name: &str| resumed.is_none() || is_given(name);
        // `config.batch_size = self.batch_size` and so on.
        macro_rules! take {
            ($($field:ident),*) => {
                $(if counts(stringify!($field)) { config.$field = self.$field; })*
            };
        }
        take!(
            batch_size,
            drop_last,
            epochs,
            lr_schedule,
            lr_warmup,
            lr_decay,
            momentum,
            label_smoothing,
            precision
        );
        if !config.lr_schedule.is_exponential() && !is_given("lr_decay") {
            config.lr_decay = 1.0;
        }
        if resumed.is_none() || self.lr.is_some() {
            config.lr = self.lr.unwrap_or_else(|| Config::lr_for(config.lr, config.momentum));
        }
        config.hidden = self.hidden.clone().map(|Widths(widths)| widths).or(config.hidden);
        config.seed = self.seed.or(config.seed);
        config.checkpoints = self.checkpoints(config.checkpoints, counts("checkpoint_keep"));
        let (metrics, save) = (self.metrics.clone(), self.save.clone());
        let (load, plot, timeline) = (self.load.clone(), self.plot.clone(), self.timeline.clone());
        let target_accuracy = self.target_accuracy.or(config.target_accuracy);
        let profile = self.profile;
        Ok(Config { metrics, save, load, plot, timeline, profile, target_accuracy, ..config })
    }

    /// Chooses the pipeline of a new run that names none: `of_several` for several devices, otherwise the fastest on the
    /// device. If that one cannot train the network, another runs instead.
    pub fn pipeline_for(&self, device: &Device, config: &Config, of_several: Option<Pipeline>) -> Pipeline {
        let is_open = self.pipeline.is_none() && self.resume.is_none();
        match of_several {
            Some(pipeline) if is_open => pipeline,
            None if is_open && device.is_cuda() => Pipeline::Resident,
            _ => config.pipeline,
        }
    }

    /// The seeds of a run that trains several networks.
    pub fn seeds(&self) -> Option<RangeInclusive<u64>> {
        self.seeds.as_ref().map(|Seeds(seeds)| seeds.clone())
    }

    /// A note to print about a setting that was derived from another one.
    pub fn note(&self, config: &Config) -> Option<String> {
        let (lr, momentum) = (config.lr, config.momentum);
        let is_derived = self.lr.is_none() && self.resume.is_none() && momentum != 0.0;
        is_derived.then(|| {
            format!("learning rate {lr}, derived from a momentum of {momentum}; set another with --lr")
        })
    }

    fn checkpoints(&self, of_run: Option<Checkpoints>, keep_counts: bool) -> Option<Checkpoints> {
        let dir = self.checkpoint.clone().or_else(|| of_run.as_ref().map(|of_run| of_run.dir.clone()))?;
        let every = self.checkpoint_every.or(of_run.as_ref().and_then(|of_run| of_run.every));
        let keep = match of_run {
            Some(of_run) if !keep_counts => of_run.keep,
            _ => self.checkpoint_keep,
        };
        Some(Checkpoints { dir, every, keep })
    }
}
