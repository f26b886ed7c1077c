//! Times sums, means, maxima, cumulative sums and transposes: `cargo bench axis`.
//!
//! Every shape of `benches/src/axis.rs` in `bf16` and `f32`, of random normal numbers. The result is checked before it is timed. On a
//! GPU the time is the device's own, by events around CUDA graphs whose launches take cold sets of matrices in turns, and the
//! medians go into `axis.json` in criterion's folder. Without a GPU it times small shapes on the CPU.
//!
//! `--serve` lets `benches/peers/axis.py` time them in turns with others: it sends `prepare NAME TYPE ROWSxCOLS`, where NAME is for
//! example `sum-rows`, `max-columns`, `cumsum` or `transpose`.
//!
//! `cargo bench axis -- bf16` takes those that have the word in their id, such as `sum-rows/bf16/32768x1024`.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use ferrowarp::device::{Device, DeviceChoice, open};
use ferrowarp_benches::axis::{AxisEntry, Kind, TYPES, prepare};
use ferrowarp_benches::exit_code;
use ferrowarp_benches::matmul::Type;
use ferrowarp_benches::norm::shape_from_words;
use ferrowarp_benches::results::{Results, median};
use ferrowarp_benches::serve::{Prepared, serve};
use ferrowarp_benches::timed::Timed;

/// Batches whose median is taken.
const SAMPLES: usize = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_server = arguments.iter().any(|argument| argument == "--serve");
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let filter = arguments.iter().find(|argument| !argument.starts_with("--")).map_or("", String::as_str);
    // The name of the bench is what `cargo bench` itself selects by.
    let filter = if filter == "axis" { "" } else { filter };
    let (device, why) = match open(DeviceChoice::Auto) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("cannot bench: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    eprintln!("{why}");
    exit_code(if is_server {
        serve(|name, words| prepared(&device, name, words), |_| None).map(|()| Vec::new())
    } else {
        run(&device, filter, is_test)
    })
}

/// What a request asks to be prepared: a type, and rows and columns.
fn prepared(device: &Device, name: &str, words: &[&str]) -> anyhow::Result<Prepared> {
    let [ty, shape] = words else { bail!("send `prepare NAME TYPE ROWSxCOLS`") };
    let ty = Type::from_name(ty).with_context(|| format!("no type {ty}; pass bf16, f16 or f32"))?;
    let kind =
        Kind::from_name(name).with_context(|| format!("no operation {name}; pass sum-rows or cumsum"))?;
    prepare(device, kind, ty, shape_from_words(shape)?)
}

/// Times all that has `filter` in its id; what failed.
fn run(device: &Device, filter: &str, is_test: bool) -> anyhow::Result<Vec<String>> {
    let mut results = Results::new(device)?;
    let mut failed = Vec::new();
    for kind in Kind::ALL {
        for dtype in TYPES {
            for &[rows, cols] in kind.shapes(device.is_cuda()) {
                let id = format!("{}/{}/{rows}x{cols}", kind.name(), dtype.name());
                if !id.contains(filter) {
                    continue;
                }
                let timed = || -> anyhow::Result<(String, Box<dyn Timed>, Vec<f64>)> {
                    let (mut timed, kernel) = prepare(device, kind, dtype, [rows, cols])?;
                    let samples = if is_test { 1 } else { SAMPLES };
                    let times = (0..samples).map(|_| timed.time()).collect::<Result<_, _>>()?;
                    Ok((kernel, timed, times))
                };
                let mut entry = AxisEntry::new(kind, dtype, [rows, cols]);
                match timed() {
                    Ok((kernel, timed, times)) => {
                        let time = median(&times) * 1e6;
                        let speed = kind.bytes(dtype, [rows, cols]) / time / 1e3;
                        println!("{id:36} {time:12.2} us {speed:10.1} GB/s  {kernel}");
                        entry.microseconds = Some(time);
                        (entry.samples, entry.sets) = (times.len(), timed.sets());
                        entry.kernels = Some(kernel);
                    }
                    Err(error) => {
                        entry.error = Some(format!("{error:#}"));
                        failed.push(format!("{id}: {error:#}"));
                    }
                }
                results.entries.push(entry);
            }
        }
    }
    if !is_test {
        eprintln!("wrote {}", results.write("axis.json")?.display());
    }
    Ok(failed)
}
