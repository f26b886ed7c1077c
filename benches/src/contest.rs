//! A bench with contenders that are timed one by one, or by another program in turns with others.

use std::process::{Command, ExitCode};

use ferrowarp::device::{Device, DeviceChoice, open};
use serde::Serialize;

use crate::exit_code;
use crate::matmul::Type;
use crate::results::{Results, median};
use crate::serve::{Prepared, serve};

/// Batches per median.
const SAMPLES: usize = 10;

/// Makes a contender ready to be timed.
pub type Prepare = Box<dyn Fn(&Device) -> anyhow::Result<Prepared>>;

/// A contender at one shape.
pub struct Contender<S> {
    /// The command line selects by this id.
    pub id: String,
    /// An operation, a rung of a ladder, or a peer.
    pub name: String,
    /// Type of the elements.
    pub dtype: Type,
    /// The shape.
    pub shape: S,
    /// Operations or bytes per launch.
    pub work: f64,
    /// Prepares it on a device, and checks its result.
    pub prepare: Prepare,
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
pub struct Bench<S> {
    /// Its name in `cargo bench NAME`.
    pub name: &'static str,
    /// The unit of its rates.
    pub unit: Unit,
    /// All its contenders on a device.
    pub contenders: fn(&Device) -> Vec<Contender<S>>,
    /// Prepares a request's problem.
    pub prepare: fn(&Device, &str, &[&str]) -> anyhow::Result<Prepared>,
    /// The names of the rungs, if it has a ladder.
    pub rungs: fn() -> Vec<&'static str>,
}

impl<S: Serialize> Bench<S> {
    /// Runs the program. With `--serve` it answers requests, with `--test` it times each contender once, otherwise it writes
    /// `NAME.json`. The first other word selects by id.
    pub fn main(&self) -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
        self.on_device(|device| {
            if has("--serve") {
                let tell = |request: &str| (request == "rungs").then(|| (self.rungs)().join(" "));
                return serve(|name, words| (self.prepare)(device, name, words), tell).map(|()| Vec::new());
            }
            let filter = self.filter(arguments.iter().map(String::as_str));
            let samples = if has("--test") { 1 } else { SAMPLES };
            let mut results = Results::new(device)?;
            let mut failed = Vec::new();
            for contender in (self.contenders)(device) {
                if contender.id.contains(filter) {
                    let entry = self.entry(device, contender, samples, &mut failed);
                    results.entries.push(entry);
                }
            }
            if samples > 1 {
                eprintln!("wrote {}", results.write(&format!("{}.json", self.name))?.display());
            }
            Ok(failed)
        })
    }

    /// The word that selects contenders. `cargo bench` itself passes the bench's name, which is ignored.
    pub fn filter<'a>(&self, mut arguments: impl Iterator<Item = &'a str>) -> &'a str {
        arguments.find(|word| !word.starts_with("--") && *word != self.name).unwrap_or_default()
    }

    /// Runs something on the first GPU, or on the CPU without one.
    pub fn on_device(&self, run: impl FnOnce(&Device) -> anyhow::Result<Vec<String>>) -> ExitCode {
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

    fn entry(
        &self,
        device: &Device,
        contender: Contender<S>,
        samples: usize,
        failed: &mut Vec<String>,
    ) -> Entry<S> {
        let Contender { id, name, dtype, shape, work, prepare } = contender;
        let timed = || -> anyhow::Result<(Prepared, Vec<f64>)> {
            let mut prepared = prepare(device)?;
            let times = (0..samples).map(|_| prepared.0.time()).collect::<Result<_, _>>()?;
            Ok((prepared, times))
        };
        let (kernels, microseconds, relative_error, clock_and_power, error) = (None, None, None, None, None);
        let untimed = Entry {
            name,
            dtype,
            shape,
            kernels,
            microseconds,
            samples: 0,
            sets: 0,
            relative_error,
            clock_and_power,
            error,
        };
        match timed() {
            Ok(((timed, kernels), times)) => {
                let (seconds, (unit, one)) = (median(&times), self.unit);
                println!("{id:40} {:12.2} us {:10.4} {unit}  {kernels}", seconds * 1e6, work / seconds / one);
                Entry {
                    kernels: Some(kernels),
                    microseconds: Some(seconds * 1e6),
                    samples: times.len(),
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
}

/// The first GPU's clock and power, from `nvidia-smi`.
fn clock_and_power_now() -> Option<[f64; 2]> {
    let query = ["--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "--id=0"];
    let output = Command::new("nvidia-smi").args(query).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (clock, power) = text.trim().split_once(',')?;
    Some([clock.trim().parse().ok()?, power.trim().parse().ok()?])
}

/// Rows and columns of a matrix, as a shape.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RowsAndCols {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

/// Parses a shape such as `4096x768`.
///
/// # Errors
/// The words do not name a shape.
pub fn shape_from_words(words: &str) -> anyhow::Result<[usize; 2]> {
    let extents: Vec<usize> = words.split('x').map(str::parse).collect::<Result<_, _>>().unwrap_or_default();
    extents.try_into().map_err(|_| anyhow::anyhow!("{words} is not a shape; pass ROWSxCOLS"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn a_shape_has_rows_and_columns() {
        assert!(shape_from_words("4096").is_err() && shape_from_words("4x5").unwrap() == [4, 5]);
    }

    /// Compares the shapes that the peers' script prints with ours.
    pub(crate) fn assert_shapes_of_peers(script: &str, ours: &str) {
        let script = format!("{}/peers/{script}", env!("CARGO_MANIFEST_DIR"));
        let Ok(output) = Command::new("python3").args([&script, "--list-shapes"]).output() else {
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), ours);
    }
}
