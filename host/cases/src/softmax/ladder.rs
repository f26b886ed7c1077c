//! The rungs of the softmax ladder: every variant of each, including those that the rung would not choose.

use std::sync::Arc;

use cuda_std::launch::Limits;
use cuda_std::testing::{KernelTest, Layout};
use ferrowarp::Softmax;
use ferrowarp::device::Device;
use gpu_kernels::ladders::softmax::{LADDER, Variant};

use super::logits::with_hard_rows;
use crate::case::{Case, wide};
use crate::layer::Problem;
use crate::reference::{RELATIVE, relative_one_after_the_other, softmax_bounds};
use crate::scopes::Scope;

/// One problem.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Misalignment of the output and of the input, in elements.
    pub offsets: [usize; 2],
    /// `[rows, cols]`.
    pub logits: Vec<f32>,
}

/// A row of the table.
struct Sweep {
    scope: Scope,
    name: &'static str,
    shapes: &'static [[usize; 2]],
    numbers: Numbers,
    kernels: Which,
}

enum Numbers {
    Logits,
    /// Rows that are hard for a softmax.
    Hard,
    /// Rows of one element, whose result is 1 or NaN.
    Single,
}

#[derive(Clone, Copy)]
enum Which {
    All,
    /// The rungs for rows that no block holds in registers.
    Wide,
    /// The rungs that need newer GPUs.
    New,
}

const fn row(
    scope: Scope,
    name: &'static str,
    shapes: &'static [[usize; 2]],
    numbers: Numbers,
    kernels: Which,
) -> Sweep {
    Sweep { scope, name, shapes, numbers, kernels }
}

const TABLE: &[Sweep] = &{
    use Numbers::{Hard, Logits, Single};
    use Scope::{Device, Executor, NewEmulator, OldEmulator};
    use Which::{All, New, Wide};
    [
        row(Executor, "rows", &[[14, 1], [14, 2], [14, 3], [14, 31], [14, 32], [14, 33]], Logits, All),
        row(Executor, "rows", &[[14, 127], [14, 1023], [14, 1024], [14, 1025]], Logits, All),
        row(Executor, "rows", &[[7, 4099], [1, 12_673]], Logits, All),
        row(Executor, "hard rows", &[[0, 133]], Hard, All),
        row(Executor, "hard rows", &[[5, 1]], Single, All),
        // Clusters of every size, each a little less than full, and one with most of its blocks empty.
        row(Executor, "wide rows", &[[3, 32_767], [2, 33_001], [1, 40_003], [2, 131_070]], Logits, Wide),
        row(Executor, "wide rows", &[[1, 262_143], [1, 300_001], [1, 1_048_579]], Logits, Wide),
        row(OldEmulator, "rows", &[[7, 1], [7, 2], [7, 3], [7, 31], [7, 32], [7, 33]], Logits, All),
        row(OldEmulator, "rows", &[[7, 127], [2, 1023], [1, 1025]], Logits, All),
        row(OldEmulator, "hard rows", &[[0, 133]], Hard, All),
        row(OldEmulator, "hard rows", &[[5, 1]], Single, All),
        row(NewEmulator, "rows", &[[7, 33], [2, 513]], Logits, All),
        row(NewEmulator, "clusters", &[[7, 1], [2, 130], [2, 1025], [1, 33_001]], Logits, New),
        row(NewEmulator, "clusters", &[[0, 133]], Hard, New),
        row(Device, "", &[[5, 32_767], [3, 33_001], [3, 131_070]], Logits, Wide),
        row(Device, "", &[[2, 262_143], [2, 300_001], [1, 1_048_579]], Logits, Wide),
    ]
};

/// Misalignments of output and input from 16 bytes, for widths that shift the alignment of every row.
const OFF_A_BOUNDARY: &[(usize, [usize; 2])] =
    &[(133, [1, 1]), (133, [3, 2]), (64, [3, 3]), (64, [1, 0]), (130, [0, 1]), (5, [2, 3])];

/// The cases of a scope on a device with these limits, from rows of the table with a chosen name.
pub fn cases(scope: Scope, limits: &Limits, chosen: impl Fn(&str) -> bool) -> Vec<Case> {
    let rows = TABLE.iter().filter(|sweep| sweep.scope == scope && chosen(sweep.name));
    let problems = rows.flat_map(|sweep| {
        sweep.shapes.iter().map(|&[rows, cols]| {
            let logits = match sweep.numbers {
                Numbers::Logits => with_hard_rows(rows, cols, false),
                Numbers::Hard => with_hard_rows(rows, cols, true),
                Numbers::Single => vec![3.0, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN],
            };
            (Ladder { rows: logits.len() / cols, cols, offsets: [0; 2], logits }, sweep.kernels)
        })
    });
    let is_off = matches!(scope, Scope::Executor | Scope::OldEmulator) && chosen("boundaries");
    let off = OFF_A_BOUNDARY.iter().filter(|_| is_off).map(|&(cols, offsets)| {
        (Ladder { rows: 7, cols, offsets, logits: with_hard_rows(7, cols, false) }, Which::All)
    });
    problems.chain(off).flat_map(|(problem, kernels)| Arc::new(problem).cases_of(limits, kernels)).collect()
}

/// The cases on the logits of a layer.
pub fn of_layer(layer: &Problem, limits: &Limits) -> Vec<Case> {
    let offsets = [layer.misalignment; 2];
    let (rows, cols, logits) = (layer.batch, layer.outputs, layer.logits.clone());
    let problem = Arc::new(Ladder { rows, cols, offsets, logits });
    let cases = problem.cases_of(limits, Which::All);
    let words = Arc::new(layer.to_string());
    let named = |case: Case| {
        let words = Arc::clone(&words);
        case.named(move || words.to_string())
    };
    cases.into_iter().map(named).collect()
}

impl Ladder {
    /// The cases of all variants of the ladder that support the shape and run on a device with these limits.
    pub fn cases(self, limits: &Limits) -> Vec<Case> {
        Arc::new(self).cases_of(limits, Which::All)
    }

    fn cases_of(self: Arc<Self>, limits: &Limits, kernels: Which) -> Vec<Case> {
        let is_new = |variant: Variant| variant.meta().min_arch >= 90;
        let variants = LADDER.iter().flat_map(|rung| {
            let is_wide = rung.variants().any(is_new);
            rung.variants().filter(move |&variant| match kernels {
                Which::All => true,
                Which::Wide => is_wide,
                Which::New => is_new(variant),
            })
        });
        variants.filter_map(|variant| self.case(variant, limits)).collect()
    }

    /// The case of a variant, if it supports the shape and runs on the device.
    fn case(self: &Arc<Self>, variant: Variant, limits: &Limits) -> Option<Case> {
        let Self { rows, cols, offsets, .. } = **self;
        let prepared = variant.prepare(rows, cols).filter(|prepared| prepared.runs_on(limits))?;
        let layout = |offset| Layout::dense(rows, cols).with_offset(offset);
        let (to, from) = (layout(offsets[0]), layout(offsets[1]));
        let run = move |problem: &Self, device: &Device| {
            let mut test = KernelTest::new();
            let (out, inp) = (test.unwritten("out", to), test.input_at("inp", &problem.logits, from));
            let workspace = Layout::dense(1, prepared.workspace_len()).with_offset(offsets[0]);
            let workspace = test.unwritten("workspace", workspace);
            let results = test.run_on(device, |on, memory| {
                let (out, inp) = (memory.output(out), memory.input(inp));
                // SAFETY: there are three buffers, with the lengths that the variant was prepared for.
                unsafe { prepared.launch(on, out, inp, memory.output(workspace)) }
            })?;
            Ok(vec![("out", wide::<f32>(&results.of(out)))])
        };
        // In the other variants, every thread adds at most a 256th of a row.
        let is_naive = variant.meta().name == LADDER[0].kernels[0].meta.name;
        let relative = if is_naive { relative_one_after_the_other(cols) } else { RELATIVE };
        let expected = move |problem: &Self| {
            vec![("out", softmax_bounds::<f32>(&problem.logits, cols, &Softmax::new(), relative))]
        };
        let kernels = variant.steps().map(|step| step.meta.name).collect();
        let config = prepared.config().filter(|config| config.cluster > 1);
        let threads = config.map_or(0, |config| config.cluster * config.block.x);
        let words = move |_: &_| format!("{rows}x{cols} at {offsets:?}");
        Some(Case::of(self, kernels, words, run, expected).with_cluster_threads(threads))
    }
}
