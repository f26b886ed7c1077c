//! Times the lessons of the gallery: `cargo bench gallery`.
//!
//! Ids are `gallery/<lesson>/<rung>/<problem>`; `cargo bench gallery/reduce` selects one lesson. Each trial is checked
//! before it is timed, like `cargo bench softmax`: on a GPU by events around a graph whose launches rotate through cold
//! buffers, on a CPU by wall time at small sizes. Only `cargo xtask gallery` measures the host's work, such as copies.

use std::process::ExitCode;
use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput};
use ferrowarp::device::{DeviceChoice, open};
use ferrowarp_benches::exit_code;
use ferrowarp_benches::gallery::{prepared, scale};
use ferrowarp_cases::gallery::LESSONS;
use ferrowarp_report::pool;

fn main() -> ExitCode {
    exit_code(pool::install(run))
}

/// Times what the command line selects. Returns the failures.
fn run() -> anyhow::Result<Vec<String>> {
    let (device, why) = open(DeviceChoice::Auto)?;
    eprintln!("{why}");
    let ms = Duration::from_millis;
    let criterion = Criterion::default().without_plots().sample_size(10).nresamples(1001);
    let criterion = criterion.warm_up_time(ms(30)).measurement_time(ms(150));
    let mut criterion = criterion.configure_from_args();
    let mut failed = Vec::new();
    for lesson in LESSONS {
        let mut group = criterion.benchmark_group(format!("gallery/{}", lesson.name));
        group.sampling_mode(SamplingMode::Flat);
        for trial in (lesson.trials)(scale(&device)) {
            let runs = gpu_kernels::KERNELS.iter().filter(|kernel| trial.kernels.contains(&kernel.name));
            if trial.procedure().is_some() || !runs.into_iter().all(|kernel| device.limits().runs(kernel)) {
                continue;
            }
            // Above 8 operations per byte, operations are the limit of most devices.
            let is_arithmetic = trial.work.flop > 8.0 * trial.work.bytes;
            group.throughput(match is_arithmetic {
                true => Throughput::Elements(trial.work.flop as u64),
                false => Throughput::Bytes(trial.work.bytes as u64),
            });
            let id = format!("{}/{}", trial.rung, trial.words);
            let mut rotation = None;
            let mut error = None;
            group.bench_function(&id, |bencher| {
                // Criterion calls this only for what the command line selects.
                bencher.iter_custom(|launches| {
                    let timed = match &mut rotation {
                        None => prepared(&device, &trial).map(|made| rotation.insert(made)),
                        Some(rotation) => Ok(rotation),
                    };
                    let timed = timed.and_then(|rotation| Ok(rotation.time(&device, launches)?));
                    timed.unwrap_or_else(|cause| {
                        error.get_or_insert(format!("{}/{id}: {cause:#}", lesson.name));
                        // Criterion cannot take an error, and divides by the time.
                        Duration::from_nanos(launches)
                    })
                });
            });
            failed.extend(error);
            device.synchronize()?;
        }
        group.finish();
    }
    criterion.final_summary();
    Ok(failed)
}
