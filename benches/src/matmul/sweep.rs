//! Times kernels that the operation could choose, to find errors of its model.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use ferrowarp::device::{Device, DeviceError};
use ferrowarp_cases::reference::Number;
use serde::Serialize;

use super::{Bench, Matmul, Set, Shape, Type, of_type, problem, shapes};
use crate::contest;
use crate::random::Operation as _;
use crate::results::{Results, median};
use crate::rotation::Rotation;
use crate::timed::{BATCH, count_of_sets};

/// A kernel with a number of splits that supports a shape.
#[derive(Debug, Serialize)]
struct SweepEntry {
    /// The operands' type.
    dtype: Type,
    /// Rows, columns and terms.
    shape: [usize; 3],
    kernels: String,
    /// Blocks that share the accumulators of a tile.
    splits: u32,
    /// Cycles, by the model that chooses.
    estimate: f64,
    /// Device time of one launch.
    microseconds: f64,
}

/// Timed launch variants per kernel, with more splits or after copies: the first in the model's order.
const MOST_SPLITS: usize = 4;
/// Batches of a kernel in a sweep.
const SWEEP_SAMPLES: usize = 3;

/// Runs `cargo bench matmul -- --sweep N`: times the N first-ranked kernels at each shape, and writes `matmul-sweep.json`.
/// The first of the other words selects ids.
pub fn sweep(most: Option<&str>, words: impl Iterator<Item = String>) -> ExitCode {
    contest::on_device(|device| {
        let most = most.and_then(|most| most.parse().ok());
        let most = most.ok_or_else(|| anyhow!("--sweep needs a number of kernels, such as --sweep 20"))?;
        let filter = contest::filter(<Bench as contest::Bench>::NAME, words)?;
        let (mut results, mut failed) = (Results::new(device)?, Vec::new());
        for (ty, &shape) in Type::ALL.into_iter().flat_map(|ty| shapes(device).iter().map(move |it| (ty, it)))
        {
            let id = format!("{}/{shape}", ty.name());
            if !filter.is_match(&id) {
                continue;
            }
            match of_type!(ty, sweep_at(device, ty, shape, most)) {
                Ok(entries) => {
                    let best = entries.iter().min_by(|a, b| a.microseconds.total_cmp(&b.microseconds));
                    if let Some((first, best)) = entries.first().zip(best) {
                        println!(
                            "{id:30} {:10.2} us {} ({:.2} x {:.2} us {})",
                            first.microseconds,
                            first.kernels,
                            first.microseconds / best.microseconds,
                            best.microseconds,
                            best.kernels
                        );
                    }
                    results.entries.extend(entries);
                }
                Err(error) => failed.push(format!("{id}: {error:#}")),
            }
        }
        eprintln!("wrote {}", results.write("matmul-sweep.json")?.display());
        Ok(failed)
    })
}

/// Times and checks the `most` choices that the model ranks first at a shape.
fn sweep_at<T: Number>(
    device: &Device,
    ty: Type,
    shape: Shape,
    most: usize,
) -> anyhow::Result<Vec<SweepEntry>> {
    let operation = Arc::new(Matmul::<T>::new(device, &problem(ty, shape))?);
    let count = count_of_sets(device, operation.bytes())?;
    let mut sets = (0..count).map(|_| operation.set()).collect::<Result<Vec<_>, _>>()?;
    let mut entries: Vec<SweepEntry> = Vec::new();
    for (choice, estimate) in operation.ranked() {
        let first = choice.kernels().next().map_or("", |kernel| kernel.name);
        let of_kernel = entries.iter().filter(|entry| entry.kernels.split(' ').next() == Some(first)).count();
        if entries.len() == most || of_kernel == MOST_SPLITS {
            continue;
        }
        let (on, run) = (device.clone(), Arc::clone(&operation));
        let launch = move |set: &mut Set<T>| Ok(run.run(&on, set, Some(choice))?);
        launch(&mut sets[0])?;
        operation.check(&sets[0]).with_context(|| format!("by {choice}"))?;
        let mut rotation = Rotation::new(device, sets, launch)?;
        let launches = (BATCH / rotation.time(device, 1)?.as_secs_f64().max(1e-7)).ceil() as u64;
        let times = (0..SWEEP_SAMPLES)
            .map(|_| Ok(rotation.time(device, launches)?.as_secs_f64() / launches as f64))
            .collect::<Result<Vec<_>, DeviceError>>()?;
        sets = rotation.into_sets();
        entries.push(SweepEntry {
            dtype: ty,
            shape: [shape.m, shape.n, shape.k],
            kernels: choice.to_string(),
            splits: choice.splits(),
            estimate,
            microseconds: median(&times) * 1e6,
        });
    }
    Ok(entries)
}
