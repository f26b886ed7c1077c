//! `cargo bench softmax`: the operations that users call, copies, and the rungs of the ladder.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, bail};
use ferrowarp::Error;
use ferrowarp::device::{Buffer, Device};
use gpu_kernels::copy::{self, copy_x1, copy_x4};
use gpu_kernels::ladders::softmax::{self as ladder, LADDER, Rung};
use serde::Serialize;

use super::Op;
use crate::contest::{self, Contender, GBS, Type, Unit};
use crate::random::axis::{Axis, Kind};
use crate::random::softmax::Forward;
use crate::random::{Instead, Pace, prepare_listed, ready};
use crate::shapes::{self, Extent, Shape};
use crate::timed::Prepared;

/// The largest `rows * cols * cols` for the naive rung, where every thread reads its whole row. A launch then takes about a
/// tenth of a second, as it does on a CPU with the smaller number.
const NAIVE_LIMIT: f64 = 1e11;
const NAIVE_LIMIT_CPU: f64 = 1e8;

/// Two kernels that copy, by one and by four elements per access.
const COPIES: [&str; 2] = ["copy_x1", "copy_x4"];

/// `cargo bench softmax`.
pub struct Bench;

/// An operation on a matrix.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Problem {
    op: Op,
    #[serde(flatten)]
    shape: Shape,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shape.fmt(f)
    }
}

/// A request names the operation apart from its shape.
impl FromStr for Problem {
    type Err = anyhow::Error;

    fn from_str(words: &str) -> anyhow::Result<Self> {
        Ok(Self { op: Op::Softmax, shape: words.parse()? })
    }
}

impl contest::Bench for Bench {
    type Shape = Problem;
    const NAME: &'static str = "softmax";
    const UNIT: Unit = GBS;
    const TYPES: &'static [Type] = &[Type::F32, Type::F16, Type::Bf16];

    fn contenders(device: &Device) -> anyhow::Result<Vec<Contender<Problem>>> {
        let shapes = shapes_of(device)?;
        let of_operations = if device.is_cuda() { shapes::of_operations() } else { shapes::cpu() };
        let contender = |name: &str, dtype, op, shape| Contender {
            name: name.to_owned(),
            dtype,
            shape: Problem { op, shape },
        };
        let (mut all, mut copied) = (Vec::new(), Vec::new());
        for &shape in &shapes {
            let others: &[Op] = if of_operations.contains(&shape) { &Op::CALLED[1..] } else { &[] };
            for ops in [&Op::CALLED[..1], others] {
                for &dtype in Self::TYPES {
                    all.extend(ops.iter().map(|&op| contender(op.name(), dtype, op, shape)));
                }
            }
            // As many bytes as f32, and as the 16-bit types.
            for shape in [shape, shape.halved()] {
                if !copied.contains(&shape.len()) {
                    copied.push(shape.len());
                    all.extend(COPIES.map(|name| contender(name, Type::F32, Op::Copy, shape)));
                }
            }
        }
        for &shape in shapes.iter().filter(|&&shape| !shapes::is_decode(shape)) {
            let rungs = LADDER.iter().filter(|rung| rung_on(device, rung, shape).is_some());
            all.extend(rungs.map(|rung| contender(rung.name, Type::F32, Op::Softmax, shape)));
        }
        Ok(all)
    }

    fn id(Contender { name, dtype, shape }: &Contender<Problem>) -> String {
        format!("softmax/{name}/{}/{shape}", dtype.name())
    }

    fn work(Contender { dtype, shape: Problem { op, shape }, .. }: &Contender<Problem>) -> f64 {
        (op.matrices() * shape.len() * dtype.bytes()) as f64
    }

    fn rungs() -> Vec<&'static str> {
        LADDER.iter().map(|rung| rung.name).collect()
    }

    fn prepare(device: &Device, contender: &Contender<Problem>) -> anyhow::Result<Prepared> {
        let (name, shape, dtype) = (contender.name.as_str(), contender.shape.shape, contender.dtype);
        if let Some(rung) = LADDER.iter().find(|rung| rung.name == name) {
            let kernel = rung_on(device, rung, shape);
            let kernel = kernel.with_context(|| format!("{name} is not for {shape} on this device"))?;
            let operation = Forward::<f32>::new(device, &Op::Softmax.operation(shape))?;
            // Allocated by the first launch, which checks the output. All recorded launches share it.
            let workspace = Mutex::new(None);
            let launch = move |on: &Device, [inp, out]: &mut [Buffer<f32>; 2]| {
                let mut workspace = workspace.lock().unwrap_or_else(PoisonError::into_inner);
                let workspace = match &mut *workspace {
                    Some(workspace) => workspace,
                    none => none.insert(on.alloc_zeroed::<f32>(kernel.workspace_len())?),
                };
                // SAFETY: there are three buffers, with the lengths that the kernel was prepared for.
                Ok(unsafe { kernel.launch(on, out, &*inp, workspace) }?)
            };
            let operation = Instead(operation.added_up_one_after_the_other(), launch);
            return ready(device, operation, None, Pace::OF_LIST);
        }
        if COPIES.contains(&name) {
            let is_wide = name == "copy_x4";
            let operation = Axis::<f32>::new(device, Kind::Cast, [shape.rows, shape.cols])?;
            let launch = move |on: &Device, set: &mut _| launch_copy(on, shape, is_wide, set);
            return ready(device, Instead(operation, launch), None, Pace::OF_LIST);
        }
        let op = Op::CALLED.into_iter().find(|op| op.name() == name).with_context(|| {
            format!("no operation {name}; pass an operation such as log_softmax, or a rung")
        })?;
        prepare_listed(device, dtype, op.operation(shape))
    }
}

fn launch_copy(
    device: &Device,
    shape: Shape,
    is_wide: bool,
    [inp, out]: &mut [Buffer<f32>; 2],
) -> Result<(), Error> {
    let (inp, rows, cols) = (&*inp, shape.rows as u32, shape.cols as u32);
    let (narrow, wide) = (copy::grid::<1>(shape.len()), copy::grid::<4>(shape.len()));
    // SAFETY: both buffers have this shape, and the grid is the kernel's for it.
    unsafe {
        match is_wide {
            true => copy_x4::launch(device, wide, out, inp, rows, cols)?,
            false => copy_x1::launch(device, narrow, out, inp, rows, cols)?,
        }
    }
    Ok(())
}

/// A rung's launch at a shape, if it supports the shape and is not too slow.
fn rung_on(device: &Device, rung: &Rung, shape: Shape) -> Option<ladder::Prepared> {
    let work = shape.len() as f64 * shape.cols as f64;
    let limit = if device.is_cuda() { NAIVE_LIMIT } else { NAIVE_LIMIT_CPU };
    let is_naive = rung.name == LADDER[0].name;
    rung.prepare_on(device.limits(), shape.rows, shape.cols).filter(|_| !is_naive || work <= limit)
}

/// The shapes to time: those of `FERROWARP_BENCH_SHAPES`, a few with `--quick` or `--test`, otherwise all.
fn shapes_of(device: &Device) -> anyhow::Result<Vec<Shape>> {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let extent = match std::env::var("FERROWARP_BENCH_SHAPES").ok().as_deref() {
        Some("all") => Extent::All,
        Some("some") => Extent::Some,
        Some("few") => Extent::Few,
        Some(other) => {
            bail!("FERROWARP_BENCH_SHAPES is `{other}`; set it to `few`, `some` or `all`, or unset it")
        }
        None if has("--quick") || has("--test") => Extent::Few,
        None => Extent::All,
    };
    Ok(if device.is_cuda() { shapes::gpu(extent) } else { shapes::cpu() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::tests::assert_prepared;

    #[test]
    fn every_operation_rung_and_copy_is_right() {
        let (device, shape) = (Device::cpu(), Shape { rows: 100, cols: 72 });
        let rungs = LADDER.iter().filter(|rung| rung_on(&device, rung, shape).is_some());
        let names = Op::CALLED.map(Op::name).into_iter().chain(COPIES).chain(rungs.map(|rung| rung.name));
        assert_prepared::<Bench>(names.map(str::to_owned), Type::F32, &shape.to_string());
    }
}
