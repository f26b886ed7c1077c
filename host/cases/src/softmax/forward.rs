//! Softmax and log-softmax, from each type to each supported result type.

mod table;

use std::sync::Arc;

use anyhow::{Result, ensure};
use cuda_std::launch::{LaunchError, Launcher, RawBuffer};
use cuda_std::testing::{KernelTest, Layout, OutputArg};
use ferrowarp::Softmax;
use ferrowarp::device::Device;
use ferrowarp::softmax::{KernelChoice, SoftmaxAs};
use gpu_kernels::softmax::forward::ForwardLaunch;

use super::backward::rounded;
use super::rowwise::told;
use crate::case::{Case, is_same, wide};
use crate::compare::{Expected, Outputs};
use crate::later::Later;
use crate::reference::{Number, RELATIVE, softmax_bounds};

pub use table::cases;

/// One problem; its logits are rounded to a kernel's type.
#[derive(Clone, Debug)]
pub struct Forward {
    /// The layouts of the output and of the input.
    pub layouts: [Layout; 2],
    /// Scale and other options.
    pub options: Softmax,
    /// The logits.
    pub logits: Vec<f32>,
}

/// Threads per cluster; 0 without clusters.
fn cluster_threads<I: SoftmaxAs<O>, O: Number>(choice: &KernelChoice<I, O>) -> u32 {
    choice.config().filter(|config| config.cluster > 1).map_or(0, |config| config.cluster * config.block.x)
}

fn case<I: Number + SoftmaxAs<O>, O: Number>(problem: Later<Forward>, choice: KernelChoice<I, O>) -> Case {
    let run = move |of: &Forward, device: &Device| of.run::<I, O>(device, &choice);
    case_of::<I, O>(problem, choice, run, "")
}

fn case_in_place<T: Number>(problem: Later<Forward>, choice: KernelChoice<T>) -> Case {
    let run = move |of: &Forward, device: &Device| {
        let got = of.run_in_place::<T>(device, &choice)?;
        let [_, layout] = of.layouts;
        let apart = Forward { layouts: [layout; 2], ..of.clone() }.run::<T, T>(device, &choice)?;
        ensure!(is_same(&got, &apart), "in place it gives other bits than from one matrix into another");
        Ok(got)
    };
    case_of::<T, T>(problem, choice, run, " in place")
}

fn case_of<I: Number + SoftmaxAs<O>, O: Number>(
    problem: Later<Forward>,
    choice: KernelChoice<I, O>,
    run: impl Fn(&Forward, &Device) -> Result<Outputs> + Send + Sync + 'static,
    place: &'static str,
) -> Case {
    let kernels = choice.kernels().map(|meta| meta.name).collect();
    let words = move |Forward { layouts, options, .. }: &Forward| {
        let types = match I::NAME == O::NAME {
            true => format!("{}{place}", I::NAME),
            false => format!("{} as {}", I::NAME, O::NAME),
        };
        let options = if *options == Softmax::new() { String::new() } else { format!(", {options:?}") };
        let config = choice.config().map_or_else(String::new, |config| {
            format!(", grid {} in clusters of {}", config.grid.x, config.cluster)
        });
        format!("softmax of {types}, {}{options}{config}", told(layouts))
    };
    Case::of(problem, kernels, words, run, Forward::expected::<I, O>)
        .with_cluster_threads(cluster_threads(&choice))
}

impl Forward {
    /// The case of a choice.
    pub fn case<I: Number + SoftmaxAs<O>, O: Number>(self: Arc<Self>, choice: KernelChoice<I, O>) -> Case {
        case(self.into(), choice)
    }

    /// The case of a choice with the result in place of the input.
    pub fn case_in_place<T: Number>(self: Arc<Self>, choice: KernelChoice<T>) -> Case {
        case_in_place(self.into(), choice)
    }

    /// The expected result of each kernel.
    pub fn expected<I: Number + SoftmaxAs<O>, O: Number>(&self) -> Expected {
        let logits: Vec<f32> = rounded::<I>(&self.logits).into_iter().map(|x| x.value()).collect();
        vec![("out", softmax_bounds::<O>(&logits, self.layouts[0].cols, &self.options, RELATIVE))]
    }

    fn run<I: Number + SoftmaxAs<O>, O: Number>(
        &self,
        device: &Device,
        choice: &KernelChoice<I, O>,
    ) -> Result<Outputs> {
        let [to, from] = self.layouts;
        let mut test = KernelTest::new();
        let (out, inp) = (test.unwritten("out", to), test.input_at("inp", &rounded::<I>(&self.logits), from));
        let workspace = test.unwritten("workspace", workspace(choice));
        let results = test.run_on(device, |on, memory| {
            let (out, inp) = (RawBuffer::written(memory.output(out)), RawBuffer::read(memory.input(inp)));
            // SAFETY: the matrices and the workspace belong to the choice.
            unsafe { self.launch(on, choice, (out, inp), [to, from], memory.output(workspace)) }
        })?;
        Ok(vec![("out", wide(&results.of(out)))])
    }

    fn run_in_place<T: Number>(&self, device: &Device, choice: &KernelChoice<T>) -> Result<Outputs> {
        let [_, layout] = self.layouts;
        let mut test = KernelTest::new();
        let matrix = test.output_at("matrix", &rounded::<T>(&self.logits), layout);
        let workspace = test.unwritten("workspace", workspace(choice));
        let results = test.run_on(device, |on, memory| {
            let matrix = RawBuffer::written(memory.output(matrix));
            // SAFETY: same as above; output and input are one matrix.
            unsafe { self.launch(on, choice, (matrix, matrix), [layout; 2], memory.output(workspace)) }
        })?;
        Ok(vec![("out", wide(&results.of(matrix)))])
    }

    /// # Safety
    /// `out` and `inp` are matrices of the choice's shape and types, and may be the same; the workspace is the choice's.
    unsafe fn launch<I: SoftmaxAs<O>, O: Number>(
        &self,
        on: &dyn Launcher,
        choice: &KernelChoice<I, O>,
        (out, inp): (RawBuffer<O>, RawBuffer<I>),
        [to, from]: [Layout; 2],
        workspace: OutputArg<'_, f32>,
    ) -> Result<(), LaunchError> {
        let pairs = RawBuffer::written(workspace).cast();
        let args = ForwardLaunch { pairs, ..ForwardLaunch::new(out, inp, [to.stride, from.stride]) };
        // SAFETY: the caller's contract.
        unsafe { choice.launch(on, args, &self.options) }
    }
}

/// The data between the kernels of a pair, which they write completely.
fn workspace<I: SoftmaxAs<O>, O: Number>(choice: &KernelChoice<I, O>) -> Layout {
    Layout::dense(1, choice.workspace_bytes() / size_of::<f32>())
}
