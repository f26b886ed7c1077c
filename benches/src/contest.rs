//! The harness of the benches: contenders at shapes, each checked and then timed, one by one or by another program in turns
//! with its own.

use std::fmt::Display;
use std::process::{Command, ExitCode};
use std::str::FromStr;

use anyhow::{Context as _, bail};
use ferrowarp::device::{Device, DeviceChoice, open};
pub use ferrowarp_cases::random::bench::Type;
use regex::Regex;
use serde::Serialize;

use crate::exit_code;
use crate::results::{Results, median};
use crate::serve::serve;
use crate::timed::Prepared;

/// Batches per median.
const SAMPLES: usize = 10;

/// Calls a function that is generic over the element's type.
macro_rules! of_type {
    ($ty:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $ty {
            $crate::contest::Type::Bf16 => $function::<cuda_std::half::bf16>($($argument),*),
            $crate::contest::Type::F16 => $function::<cuda_std::half::f16>($($argument),*),
            $crate::contest::Type::Tf32 | $crate::contest::Type::F32 => $function::<f32>($($argument),*),
        }
    };
}
pub(crate) use of_type;

/// What is timed: an operation, a rung of a ladder or a peer, at a shape.
#[derive(Clone, Debug)]
pub struct Contender<S> {
    /// Its name.
    pub name: String,
    /// Type of the elements.
    pub dtype: Type,
    /// The shape.
    pub shape: S,
}

/// A contender at one shape: a time, or why there is none.
#[derive(Debug, Serialize)]
struct Entry<S> {
    name: String,
    dtype: Type,
    #[serde(flatten)]
    shape: S,
    /// The kernels of the launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernels: Option<String>,
    /// Device time of one launch, the median of the samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    microseconds: Option<f64>,
    /// Timed batches.
    samples: usize,
    /// Launches in a batch's graph.
    launches_per_sample: usize,
    /// Sets of operands that the launches rotate through.
    sets: usize,
    /// See [`Timed::relative_error`](crate::timed::Timed::relative_error).
    #[serde(skip_serializing_if = "Option::is_none")]
    relative_error: Option<f64>,
    /// The clock in MHz and the power in watts, right after the last batch, as `nvidia-smi` reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_and_power: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The unit of a rate, with its operations or bytes per second.
pub type Unit = (&'static str, f64);

/// 10^12 operations per second.
pub const TFLOPS: Unit = ("TFLOP/s", 1e12);
/// 10^9 bytes per second.
pub const GBS: Unit = ("GB/s", 1e9);

/// A bench.
pub trait Bench {
    /// The shape of a contender, with the words of ids and requests.
    type Shape: Copy + Display + FromStr<Err = anyhow::Error> + Serialize;
    /// Its name in `cargo bench NAME`.
    const NAME: &'static str;
    /// The unit of its rates.
    const UNIT: Unit;
    /// The types that it supports.
    const TYPES: &'static [Type];

    /// All its contenders on a device.
    ///
    /// # Errors
    /// The environment asks for something that does not exist.
    fn contenders(device: &Device) -> anyhow::Result<Vec<Contender<Self::Shape>>>;

    /// Prepares a contender and checks its result.
    ///
    /// # Errors
    /// There is no such contender, not enough memory, a launch failed, or a result is wrong.
    fn prepare(device: &Device, contender: &Contender<Self::Shape>) -> anyhow::Result<Prepared>;

    /// Operations or bytes of a launch.
    fn work(contender: &Contender<Self::Shape>) -> f64;

    /// The command line selects by this id.
    fn id(Contender { name, dtype, shape }: &Contender<Self::Shape>) -> String {
        format!("{name}/{}/{shape}", dtype.name())
    }

    /// The names of the rungs, if it has a ladder.
    fn rungs() -> Vec<&'static str> {
        Vec::new()
    }
}

/// Runs the bench. With `--serve` it answers requests, with `--list` it prints ids, with `--test` it times each contender
/// once, otherwise it writes `NAME.json`. The first other word is a regular expression that selects ids.
pub fn main<B: Bench>() -> ExitCode {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    on_device(|device| {
        if has("--serve") {
            let tell = |request: &str| (request == "rungs").then(|| Ok(B::rungs().join(" ")));
            return serve(|name, words| requested::<B>(device, name, words), tell).map(|()| Vec::new());
        }
        let filter = filter(B::NAME, std::env::args().skip(1))?;
        let samples = if has("--test") { 1 } else { SAMPLES };
        let mut results = Results::new(device)?;
        let mut failed = Vec::new();
        for contender in B::contenders(device)?.iter().filter(|it| filter.is_match(&B::id(it))) {
            if has("--list") {
                println!("{}", B::id(contender));
                continue;
            }
            results.entries.push(entry::<B>(device, contender, samples, &mut failed));
            if let Err(fault) = device.synchronize() {
                results.write(&format!("{}.json", B::NAME))?;
                return Err(fault).context("the device is lost");
            }
        }
        if samples > 1 && !results.entries.is_empty() {
            eprintln!("wrote {}", results.write(&format!("{}.json", B::NAME))?.display());
        }
        Ok(failed)
    })
}

/// The expression that selects ids: the first word of the command line. `cargo bench` itself passes the bench's name, which
/// is ignored.
///
/// # Errors
/// The word is not a regular expression.
pub fn filter(name: &str, arguments: impl Iterator<Item = String>) -> anyhow::Result<Regex> {
    let mut words = arguments.filter(|word| !word.starts_with("--") && word != name);
    let word = words.next().unwrap_or_default();
    Regex::new(&word).with_context(|| format!("`{word}` does not select ids"))
}

/// Runs something on the first GPU, or on the CPU without one.
pub fn on_device(run: impl FnOnce(&Device) -> anyhow::Result<Vec<String>>) -> ExitCode {
    match open(DeviceChoice::Auto) {
        Ok((device, why)) => {
            eprintln!("{why}");
            exit_code(run(&device))
        }
        Err(error) => {
            eprintln!("cannot bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prepares a request's contender, from its name, its type and the words of its shape.
fn requested<B: Bench>(device: &Device, name: &str, words: &[&str]) -> anyhow::Result<Prepared> {
    let [ty, shape @ ..] = words else { bail!("send `prepare NAME TYPE SHAPE`") };
    let dtype = B::TYPES.iter().find(|known| known.name() == *ty);
    let types = || B::TYPES.iter().map(|ty| ty.name()).collect::<Vec<_>>().join(", ");
    let dtype = *dtype.with_context(|| format!("no type {ty} here; pass one of {}", types()))?;
    B::prepare(device, &Contender { name: name.to_owned(), dtype, shape: shape.join("x").parse()? })
}

fn entry<B: Bench>(
    device: &Device,
    contender: &Contender<B::Shape>,
    samples: usize,
    failed: &mut Vec<String>,
) -> Entry<B::Shape> {
    let (id, Contender { name, dtype, shape }) = (B::id(contender), contender.clone());
    let untimed = Entry {
        name,
        dtype,
        shape,
        kernels: None,
        microseconds: None,
        samples: 0,
        launches_per_sample: 0,
        sets: 0,
        relative_error: None,
        clock_and_power: None,
        error: None,
    };
    let timed = || -> anyhow::Result<(Prepared, Vec<f64>)> {
        let mut prepared = B::prepare(device, contender)?;
        let times = (0..samples).map(|_| prepared.0.time()).collect::<Result<_, _>>()?;
        Ok((prepared, times))
    };
    match timed() {
        Ok(((timed, kernels), times)) => {
            let (seconds, (unit, one)) = (median(&times), B::UNIT);
            let rate = B::work(contender) / seconds / one;
            println!("{id:40} {:12.2} us {rate:10.4} {unit}  {kernels}", seconds * 1e6);
            Entry {
                kernels: Some(kernels),
                microseconds: Some(seconds * 1e6),
                samples: times.len(),
                launches_per_sample: timed.launches(),
                sets: timed.sets(),
                relative_error: Some(timed.relative_error()).filter(|&error| error > 0.0),
                clock_and_power: device.is_cuda().then(clock_and_power_now).flatten(),
                ..untimed
            }
        }
        Err(error) => {
            failed.push(format!("{id}: {error:#}"));
            Entry { error: Some(format!("{error:#}")), ..untimed }
        }
    }
}

/// The first GPU's clock and power, from `nvidia-smi`.
fn clock_and_power_now() -> Option<[f64; 2]> {
    let query = ["--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "--id=0"];
    let output = Command::new("nvidia-smi").args(query).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (clock, power) = text.trim().split_once(',')?;
    Some([clock.trim().parse().ok()?, power.trim().parse().ok()?])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::shapes::Shape;

    #[test]
    fn a_shape_has_rows_and_columns() {
        assert!("4096".parse::<Shape>().is_err());
        assert_eq!("4x5".parse::<Shape>().unwrap(), Shape { rows: 4, cols: 5 });
    }

    /// Compares the shapes that the peers' script prints with ours.
    pub(crate) fn assert_shapes_of_peers(
        script: &str,
        arguments: &[&str],
        ours: impl Iterator<Item = String>,
    ) {
        let script = format!("{}/peers/{script}", env!("CARGO_MANIFEST_DIR"));
        let Ok(output) = Command::new("python3").arg(&script).args(arguments).output() else {
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let ours: String = ours.map(|line| line + "\n").collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout), ours);
    }

    /// Every contender of the bench on a CPU is right, at the smallest shapes.
    pub(crate) fn assert_prepared<B: Bench>(names: impl Iterator<Item = String>, dtype: Type, shape: &str) {
        for name in names {
            let contender = Contender { name, dtype, shape: shape.parse().unwrap() };
            B::prepare(&Device::cpu(), &contender).map(drop).unwrap();
        }
    }
}
