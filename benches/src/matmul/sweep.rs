//! Times kernels that the operation could choose, to find errors of its model.

use anyhow::Context as _;
use cuda_std::half::{bf16, f16};
use ferrowarp::device::{Device, DeviceError};
use ferrowarp::matmul::KernelChoice;
use ferrowarp::softmax::DeviceProfile;
use ferrowarp_cases::reference::Number;
use serde::Serialize;

use super::{Set, Shape, Type, check, problem, sets};
use crate::rotation::Rotation;
use crate::timed::BATCH;

/// A kernel with a number of splits that supports a shape.
#[derive(Debug, Serialize)]
pub struct SweepEntry {
    /// The operands' type.
    pub dtype: Type,
    /// Rows, columns and terms.
    pub shape: [usize; 3],
    /// The kernels.
    pub kernels: String,
    /// Blocks that share the accumulators of a tile.
    pub splits: u32,
    /// Cycles, by the model that chooses.
    pub estimate: f64,
    /// Device time of one launch.
    pub microseconds: f64,
}

/// Timed launch variants per kernel, with more splits or after copies: the first in the model's order.
const MOST_SPLITS: usize = 4;
/// Batches of a kernel in a sweep.
const SWEEP_SAMPLES: usize = 3;

/// Times and checks the `most` choices that the model ranks first at a shape.
///
/// # Errors
/// Same as for [`prepare`](super::prepare).
pub fn sweep(device: &Device, ty: Type, shape: Shape, most: usize) -> anyhow::Result<Vec<SweepEntry>> {
    match ty {
        Type::Bf16 => sweep_as::<bf16>(device, ty, shape, most),
        Type::F16 => sweep_as::<f16>(device, ty, shape, most),
        Type::Tf32 | Type::F32 => sweep_as::<f32>(device, ty, shape, most),
    }
}

fn sweep_as<T: Number>(
    device: &Device,
    ty: Type,
    shape @ Shape { m, n, k }: Shape,
    most: usize,
) -> anyhow::Result<Vec<SweepEntry>> {
    let problem = problem(ty, shape);
    let precision = problem.precision;
    let ranked = KernelChoice::<T>::ranked(&DeviceProfile::from(device), &problem);
    let (a, b, mut sets) = sets::<T>(device, shape)?;
    let mut entries: Vec<SweepEntry> = Vec::new();
    for (choice, estimate) in ranked {
        let first = choice.kernels().next().map_or("", |kernel| kernel.name);
        let of_kernel = entries.iter().filter(|entry| entry.kernels.split(' ').next() == Some(first)).count();
        if entries.len() == most || of_kernel == MOST_SPLITS {
            continue;
        }
        let on = device.clone();
        let launch = move |set: &mut Set<T>| Ok(set.run_by(&on, precision, Some(choice))?);
        launch(&mut sets[0])?;
        check(ty, shape, (&a, &b), &sets[0].out.to_vec()?)
            .with_context(|| format!("{} {shape} by {choice}", ty.name()))?;
        let mut rotation = Rotation::new(device, sets, launch)?;
        let launches = (BATCH / rotation.time(device, 1)?.as_secs_f64().max(1e-7)).ceil() as u64;
        let mut times = (0..SWEEP_SAMPLES)
            .map(|_| Ok(rotation.time(device, launches)?.as_secs_f64() / launches as f64))
            .collect::<Result<Vec<_>, DeviceError>>()?;
        times.sort_by(f64::total_cmp);
        sets = rotation.into_sets();
        let (shape, splits, microseconds) = ([m, n, k], choice.splits(), times[SWEEP_SAMPLES / 2] * 1e6);
        entries.push(SweepEntry {
            dtype: ty,
            shape,
            kernels: choice.to_string(),
            splits,
            estimate,
            microseconds,
        });
    }
    Ok(entries)
}
