//! Cross entropy with the columns divided among devices. Here one device runs the kernels of all of them.

use anyhow::Result;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{LaunchConfig, RawBuffer};
use cuda_std::testing::{KernelTest, Layout};
use ferrowarp::device::Device;
use gpu_kernels::softmax::cross_entropy::{
    FACTORS, I64, NUMBERS, ShardGradientLaunch, ShardPartLaunch, cross_entropy_combine,
};

use super::backward::rounded;
use super::cross_entropy::{CrossEntropy, IGNORED};
use super::rowwise::{Rowwise as _, apart};
use crate::case::{Case, wide};
use crate::compare::{Expected, Outputs};
use crate::later::Later;
use crate::reference::Number;
use crate::scopes::{Scope, Setting, cases_of_types};

/// A division of the columns.
#[derive(Clone, Copy, Debug)]
struct Division {
    /// The first column of each device, and the end.
    cuts: &'static [usize],
    /// Parts per row of each device.
    parts: u32,
}

/// Scopes, rows, and divisions of the columns; some shards have one column or none.
const SWEEPS: &[(Scope, usize, &[Division])] = &[
    (Scope::Tiny, 1, &[Division { cuts: &[0, 20, 35], parts: 1 }]),
    (Scope::Small, 3, &[Division { cuts: &[0, 20, 35], parts: 2 }]),
    (Scope::OldEmulator, 11, &[Division { cuts: &[0, 33, 34, 300], parts: 1 }]),
    (Scope::NewEmulator, 5, &[Division { cuts: &[0, 100, 257], parts: 2 }]),
    (
        Scope::Executor,
        11,
        &[
            Division { cuts: &[0, 1], parts: 1 },
            Division { cuts: &[0, 0, 1, 2], parts: 1 },
            Division { cuts: &[0, 16, 33, 33], parts: 2 },
            Division { cuts: &[0, 500, 513, 1025, 1026], parts: 3 },
        ],
    ),
    (Scope::Executor, 2, &[Division { cuts: &[0, 30_001, 60_000], parts: 3 }]),
    (Scope::Device, 11, &[Division { cuts: &[0, 20_000, 40_001], parts: 1 }]),
    (Scope::Device, 3, &[Division { cuts: &[0, 1, 30_001, 60_000], parts: 3 }]),
];

/// Every case of the setting.
pub fn cases(setting: &Setting) -> Vec<Case> {
    cases_of_types!(f32, f16, bf16 => of_type::<T>(setting))
}

fn of_type<T: Number>(setting: &Setting) -> Vec<Case> {
    let mut cases = Vec::new();
    for &(_, rows, divisions) in SWEEPS.iter().filter(|(scope, ..)| *scope == setting.scope) {
        for &division in divisions {
            let cols = division.cuts.last().copied().unwrap_or(0);
            let is_apart = matches!(setting.scope, Scope::Tiny | Scope::Small | Scope::Device);
            let layout = if is_apart { apart(rows, cols) } else { Layout::dense(rows, cols) };
            let problem =
                Later::new(move || CrossEntropy::random([layout; 3], (rows * 10_000 + cols) as u64));
            let places: &[bool] = if setting.scope == Scope::Executor { &[false, true] } else { &[false] };
            cases.extend(places.iter().map(|&in_place| case::<T>(&problem, division, in_place)));
        }
    }
    cases
}

fn case<T: Number>(problem: &Later<CrossEntropy>, division: Division, in_place: bool) -> Case {
    let kernels = &T::CROSS_ENTROPY.shards;
    let names = vec![kernels.part.meta.name, cross_entropy_combine::META.name, kernels.gradient.meta.name];
    let words = move |of: &CrossEntropy| {
        let Division { cuts, parts } = division;
        let place = if in_place { "in place, " } else { "" };
        let rows = of.layouts[1].rows;
        format!("cross entropy of {}, {place}{rows} rows of columns {cuts:?} in {parts} parts", T::NAME)
    };
    let run = move |of: &CrossEntropy, device: &Device| run::<T>(of, division, device, in_place);
    Case::of(problem, names, words, run, expected::<T>)
}

/// The expected results, except correctness.
fn expected<T: Number>(problem: &CrossEntropy) -> Expected {
    let mut expected = problem.expected::<T>();
    expected.retain(|(name, _)| *name != "correct");
    expected
}

/// All results; the gradient is in separate memory or in place of the logits.
fn run<T: Number>(
    problem: &CrossEntropy,
    Division { cuts, parts }: Division,
    device: &Device,
    in_place: bool,
) -> Result<Outputs> {
    let [of_gradient, of_logits] = problem.layouts;
    let (rows, devices) = (of_logits.rows, cuts.len() - 1);
    let numbers: Vec<T> = rounded(&problem.logits);
    let mut test = KernelTest::new();
    let (gradient, of_gradient, logits) = if in_place {
        (test.output_at("logits", &numbers, of_logits), of_logits, None)
    } else {
        let logits = test.input_at("logits", &numbers, of_logits);
        (test.unwritten("gradient", of_gradient), of_gradient, Some(logits))
    };
    let of_rows = Layout::dense(1, rows);
    let (loss, lse) = (test.unwritten::<f32>("loss", of_rows), test.unwritten::<f32>("lse", of_rows));
    let targets = test.input("targets", &problem.targets);
    let d_loss = problem.d_loss.as_ref().map(|d_loss| test.input("d_loss", d_loss));
    let of_device = NUMBERS * rows * parts as usize;
    let between = test.unwritten::<f32>("numbers", Layout::dense(devices, of_device));
    let factors = test.unwritten::<f32>("factors", Layout::dense(FACTORS, rows));
    let results = test.run_on(device, |on, memory| {
        let kernels = &T::CROSS_ENTROPY.shards;
        let d_logits = RawBuffer::written(memory.output(gradient));
        let logits = logits.map_or(d_logits, |logits| RawBuffer::read(memory.input(logits)));
        let targets = RawBuffer::read(memory.input(targets)).cast();
        let between = RawBuffer::written(memory.output(between));
        let factors = RawBuffer::written(memory.output(factors));
        let config = |block| LaunchConfig::new(rows as u32 * parts, block);
        for device in 0..devices {
            let args = ShardPartLaunch {
                numbers: between.skip(device * of_device),
                logits: logits.skip(cuts[device]),
                targets,
                rows: rows as u32,
                stride: of_logits.stride as u64,
                cols: (cuts[device + 1] - cuts[device]) as u32,
                first_class: cuts[device] as i64,
                ignore_index: IGNORED,
                target_bytes: I64,
                parts,
                reads_ignored: 1,
            };
            // SAFETY: the buffers have the shapes and strides, and the grid covers the rows and their parts.
            unsafe { kernels.part.launch(on, config(kernels.part.block), args)? };
        }
        // SAFETY: the buffers have an element for each row, and for each of its parts; the grid covers the rows.
        unsafe {
            cross_entropy_combine::launch(
                on,
                LaunchConfig::cover(rows, 64),
                memory.output(loss),
                memory.output(lse),
                factors,
                between,
                targets,
                d_loss.map_or(RawBuffer::NULL, |d_loss| RawBuffer::read(memory.input(d_loss))),
                rows as u32,
                parts,
                devices as u32,
                I64,
                IGNORED,
                problem.d_scale,
            )?;
        }
        for device in (0..devices).filter(|device| cuts[*device] < cuts[device + 1]) {
            let args = ShardGradientLaunch {
                d_logits: d_logits.skip(cuts[device]),
                logits: logits.skip(cuts[device]),
                targets,
                factors,
                rows: rows as u32,
                d_stride: of_gradient.stride as u64,
                stride: of_logits.stride as u64,
                cols: (cuts[device + 1] - cuts[device]) as u32,
                first_class: cuts[device] as i64,
                ignore_index: IGNORED,
                target_bytes: I64,
                parts,
            };
            // SAFETY: the buffers have the shapes and strides, and the grid covers the rows and their parts.
            unsafe { kernels.gradient.launch(on, config(kernels.gradient.block), args)? };
        }
        Ok(())
    })?;
    Ok(vec![
        ("loss", wide(&results.of(loss))),
        ("lse", wide(&results.of(lse))),
        ("gradient", wide(&results.of(gradient))),
    ])
}
