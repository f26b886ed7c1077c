//! Softmax and log-softmax, from each type to each that it can be given as.

mod table;

use std::sync::Arc;

use anyhow::{Result, ensure};
use cuda_std::launch::{LaunchError, Launcher};
use cuda_std::testing::{KernelTest, Layout, OutputArg};
use ferrowarp::device::{Device, DeviceError};
use ferrowarp::softmax::{Choice, Operand, Options};
use gpu_kernels::softmax::operation::Memory;

use super::backward::rounded;
use super::{Real, told};
use crate::Case;
use crate::case::{is_same, wide};
use crate::compare::{Expected, Outputs};
use crate::reference::{RELATIVE, softmax_bounds};

pub use table::{OfPair, cases, of_each_pair};

/// One problem; its logits are rounded to a kernel's type.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Of the output and of the input.
    pub layouts: [Layout; 2],
    /// What is computed besides.
    pub options: Options,
    /// The logits.
    pub logits: Vec<f32>,
}

/// Threads of a cluster; 0 where there is none.
fn cluster_threads(choice: &Choice) -> u32 {
    choice.config().filter(|config| config.cluster > 1).map_or(0, |config| config.cluster * config.block.x)
}

impl Forward {
    /// The case of a choice.
    pub fn case<I: Real, O: Real>(self: Arc<Self>, choice: Choice) -> Case {
        let types =
            if I::NAME == O::NAME { I::NAME.to_owned() } else { format!("{} as {}", I::NAME, O::NAME) };
        let problem = Arc::clone(&self);
        let run = move |device: &Device| Ok(vec![("out", wide(&problem.run::<I, O>(device, &choice)?))]);
        self.case_of::<I, O>(&choice, &types, run)
    }

    /// The case of a choice with the result in the input's place.
    pub fn case_in_place<T: Real>(self: Arc<Self>, choice: Choice) -> Case {
        let problem = Arc::clone(&self);
        let run = move |device: &Device| {
            let got = vec![("out", wide(&problem.run_in_place::<T>(device, &choice)?))];
            let [_, layout] = problem.layouts;
            let apart = Self { layouts: [layout; 2], ..(*problem).clone() };
            let apart = vec![("out", wide(&apart.run::<T, T>(device, &choice)?))];
            ensure!(is_same(&got, &apart), "in place it gives other bits than from one matrix into another");
            Ok(got)
        };
        self.case_of::<T, T>(&choice, &format!("{} in place", T::NAME), run)
    }

    /// What each kernel must give.
    pub fn expected<I: Real, O: Real>(&self) -> Expected {
        let logits: Vec<f32> = rounded::<I>(&self.logits).into_iter().map(|x| x.value()).collect();
        vec![("out", softmax_bounds::<O>(&logits, self.layouts[0].cols, &self.options, RELATIVE))]
    }

    fn case_of<I: Real, O: Real>(
        self: Arc<Self>,
        choice: &Choice,
        types: &str,
        run: impl Fn(&Device) -> Result<Outputs> + Send + Sync + 'static,
    ) -> Case {
        let kernels = choice.kernels().map(|meta| meta.name).collect();
        let config = choice.config().map_or_else(String::new, |config| {
            format!(", grid {} in clusters of {}", config.grid, config.cluster)
        });
        let words = format!("softmax of {types}, {} {:?}{config}", told(&self.layouts), self.options);
        let expected = move || self.expected::<I, O>();
        Case::new(kernels, words, run, expected).with_cluster_threads(cluster_threads(choice))
    }

    fn run<I: Real, O: Real>(&self, device: &Device, choice: &Choice) -> Result<Vec<O>> {
        let [to, from] = self.layouts;
        let mut test = KernelTest::new();
        let (out, inp) = (test.unwritten("out", to), test.input_at("inp", &rounded::<I>(&self.logits), from));
        let workspace = test.unwritten("workspace", workspace(choice));
        let results = test.run_on(device, |on, memory| {
            let (out, inp) = (Memory::written(memory.output(out)), Memory::read(memory.input(inp)));
            // SAFETY: the matrices and the workspace of the choice.
            unsafe { self.launch(on, choice, [(out, to), (inp, from)], memory.output(workspace)) }
        })?;
        Ok(results.of(out))
    }

    fn run_in_place<T: Real>(&self, device: &Device, choice: &Choice) -> Result<Vec<T>> {
        let [_, layout] = self.layouts;
        let mut test = KernelTest::new();
        let matrix = test.output_at("matrix", &rounded::<T>(&self.logits), layout);
        let workspace = test.unwritten("workspace", workspace(choice));
        let results = test.run_on(device, |on, memory| {
            let matrix = (Memory::written(memory.output(matrix)), layout);
            // SAFETY: as above; output and input are one matrix.
            unsafe { self.launch(on, choice, [matrix; 2], memory.output(workspace)) }
        })?;
        Ok(results.of(matrix))
    }

    /// # Safety
    /// `out` and `inp` are matrices of the choice's shape and types, which may be one, and the workspace is its.
    unsafe fn launch(
        &self,
        on: &dyn Launcher,
        choice: &Choice,
        [out, inp]: [(Memory, Layout); 2],
        workspace: OutputArg<'_, f32>,
    ) -> Result<(), LaunchError> {
        let [out, inp] = [out, inp].map(|(memory, layout)| Operand { memory, stride: layout.stride });
        // SAFETY: the caller's contract.
        let launched = unsafe { choice.launch(on, out, inp, &self.options, Memory::written(workspace)) };
        launched.map_err(|error| LaunchError::Device(Box::new(DeviceError::from(error))))
    }
}

/// What lies between the kernels of a pair, which they write whole.
fn workspace(choice: &Choice) -> Layout {
    Layout::dense(1, choice.workspace_bytes() / size_of::<f32>())
}
