//! The table of problems, and its cases.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::Limits;
use cuda_std::testing::Layout;
use ferrowarp::Softmax;
use ferrowarp::softmax::{DeviceProfile, KernelChoice, SoftmaxAs};
use gpu_kernels::softmax::operation::ForwardTo;

use super::{Forward, case, case_in_place, cluster_threads};
use crate::case::Case;
use crate::later::Later;
use crate::reference::Number;
use crate::scopes::{Scope, Setting, cases_of_types};
use crate::softmax::logits::with_hard_rows;
use crate::softmax::rowwise::apart;
use How::{Apart, Each, InPlace, InTurns};
use Rows::{Random, RandomAndHard};
use Which::{All, Chosen, Clusters, Narrow, OnePair, UpTo, Widest};

/// A row of the table.
struct Sweep {
    scope: Scope,
    name: &'static str,
    widths: &'static [usize],
    rows: Rows,
    how: How,
    /// Maximum blocks and threads per cluster.
    cluster: [u32; 2],
    kernels: Which,
}

#[derive(Clone, Copy)]
enum Rows {
    /// The number of rows: for kernels with at most one block per row, then for kernels with many blocks per row. The latter
    /// are slowest on the CPU.
    Random(usize, usize),
    /// This many rows, and the rows that are hard for a softmax.
    RandomAndHard(usize),
}

/// The layouts of matrices, and the options.
enum How {
    /// The options; both alternate from case to case.
    InTurns(&'static [Softmax]),
    /// Each of the options; layouts alternate.
    Each(&'static [Softmax]),
    /// Misaligned, with elements between the rows.
    Apart(Softmax),
    /// In place: must give the same bits as from one matrix into another with the same misalignment.
    InPlace,
}

/// The kernels to run.
enum Which {
    All,
    /// Those with blocks of at most this many threads.
    UpTo(u32),
    /// One of the pairs for wide rows, which only differ in type and number of parts: `f32` with the most parts.
    OnePair,
    Clusters,
    /// The kernels with a few lanes per row.
    Narrow,
    /// The kernel chosen for the shape.
    Chosen,
    /// Each kernel at the widest row that it holds.
    Widest,
}

const PLAIN: Softmax = Softmax::new();
const LOG: Softmax = PLAIN.log();
const MASKED: Softmax = PLAIN.zero_masked();
const OTHER: Softmax = LOG.scale(0.5).zero_masked();
const MANY: How = InTurns(&[PLAIN, LOG, PLAIN.scale(0.37), MASKED, MASKED.log().scale(2.5), PLAIN]);
const THREE: How = Each(&[PLAIN, LOG, MASKED]);
const NO_CLUSTER: [u32; 2] = [1, 0];
const ANY: [u32; 2] = [16, u32::MAX];

const fn row(
    scope: Scope,
    name: &'static str,
    widths: &'static [usize],
    rows: Rows,
    how: How,
    cluster: [u32; 2],
    kernels: Which,
) -> Sweep {
    Sweep { scope, name, widths, rows, how, cluster, kernels }
}

const TABLE: &[Sweep] = &{
    use Scope::{Device, Executor, NewEmulator, OldEmulator, Small, Tiny};
    [
        row(Tiny, "", &[35], Random(1, 1), Apart(PLAIN), NO_CLUSTER, OnePair),
        row(Tiny, "", &[9], Random(1, 1), Apart(PLAIN), NO_CLUSTER, Narrow),
        row(Small, "", &[9], Random(1, 1), Apart(PLAIN), NO_CLUSTER, Narrow),
        row(NewEmulator, "", &[9], Random(3, 3), Apart(PLAIN), NO_CLUSTER, Narrow),
        row(Tiny, "", &[67], Random(1, 1), Apart(PLAIN), [2, 2048], Clusters),
        row(Small, "", &[35, 1157], Random(3, 3), Apart(PLAIN), NO_CLUSTER, All),
        row(Small, "", &[1157], Random(1, 1), Apart(PLAIN), [4, 4096], Clusters),
        row(OldEmulator, "", &[1], Random(9, 9), InTurns(&[PLAIN, OTHER]), NO_CLUSTER, All),
        row(OldEmulator, "", &[33], Random(5, 5), InTurns(&[OTHER, PLAIN]), NO_CLUSTER, All),
        row(OldEmulator, "", &[519], Random(1, 1), InTurns(&[PLAIN, OTHER]), NO_CLUSTER, All),
        // Enough warps to exercise merging.
        row(OldEmulator, "", &[133], RandomAndHard(0), Each(&[PLAIN]), NO_CLUSTER, UpTo(128)),
        row(NewEmulator, "", &[33], Random(3, 3), InTurns(&[PLAIN, OTHER]), [2, 2048], All),
        row(NewEmulator, "", &[1031], Random(1, 1), InTurns(&[OTHER, PLAIN]), [2, 2048], All),
        row(NewEmulator, "", &[133], RandomAndHard(0), Each(&[PLAIN]), [2, 2048], UpTo(128)),
        // Larger clusters have more stacks than a process has mappings.
        row(Executor, "narrow rows", &[1, 2, 3, 31, 32, 33, 127], Random(14, 2), MANY, [16, 2048], All),
        row(Executor, "rows of some warps", &[1023, 1024, 1025, 4099], Random(7, 2), MANY, [16, 4096], All),
        row(Executor, "wide rows", &[33_001, 65_537], Random(2, 2), MANY, [16, 8192], All),
        row(Executor, "widest rows", &[], Random(3, 3), Each(&[PLAIN]), [16, 8192], Widest),
        row(Executor, "hard rows", &[133, 2053], RandomAndHard(0), THREE, [16, 2048], All),
        row(Executor, "in place", &[5, 133, 1025, 4099], Random(3, 3), InPlace, [16, 8192], All),
        row(Device, "", &[1], Random(3, 3), Apart(PLAIN), ANY, All),
        row(Device, "", &[35], RandomAndHard(3), Apart(LOG.scale(0.5)), ANY, All),
        row(Device, "", &[2053], RandomAndHard(3), Apart(MASKED), ANY, All),
        // Widths that fill the registers, from narrow ones to clusters and the pair.
        row(Device, "", &[67, 515, 3079, 16_391, 40_000, 300_001], Random(3, 3), InPlace, ANY, Chosen),
    ]
};

/// Runs `$body` for each supported pair of types `I` and `O`, with its kernels in `$kernels`.
#[macro_export]
macro_rules! for_each_pair {
    (|$kernels:ident| $body:block) => {{
        use cuda_std::half::{bf16, f16};
        $crate::for_each_pair!(@ $kernels $body f32 f32);
        $crate::for_each_pair!(@ $kernels $body f16 f16);
        $crate::for_each_pair!(@ $kernels $body bf16 bf16);
        $crate::for_each_pair!(@ $kernels $body f16 f32);
        $crate::for_each_pair!(@ $kernels $body bf16 f32);
        $crate::for_each_pair!(@ $kernels $body f32 f16);
        $crate::for_each_pair!(@ $kernels $body f32 bf16);
    }};
    (@ $kernels:ident $body:block $inp:ident $out:ident) => {{
        #[allow(dead_code, reason = "not every body uses both types")]
        type I = $inp;
        #[allow(dead_code, reason = "as above")]
        type O = $out;
        #[allow(unused_variables, reason = "as above")]
        let $kernels = <$inp as gpu_kernels::softmax::operation::ForwardTo<$out>>::FORWARD;
        $body
    }};
}

/// The cases of the setting, from rows of the table with a chosen name.
pub fn cases(setting: &Setting, chosen: impl Fn(&str) -> bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for sweep in TABLE.iter().filter(|sweep| sweep.scope == setting.scope && chosen(sweep.name)) {
        if matches!(sweep.how, InPlace) {
            cases.extend(cases_of_types!(f32, f16, bf16 => sweep.of::<T, T>(setting, case_in_place)));
        } else {
            for_each_pair!(|_kernels| {
                cases.extend(sweep.of::<I, O>(setting, case));
            });
        }
    }
    cases
}

impl Sweep {
    /// The launches for a shape.
    fn choices<I: SoftmaxAs<O>, O: Number>(
        &self,
        profile: &DeviceProfile,
        [rows, cols]: [usize; 2],
    ) -> Vec<KernelChoice<I, O>> {
        let max_cluster = profile.limits.max_cluster.min(self.cluster[0]);
        let limits = Limits { max_cluster, ..profile.limits.clone() };
        let profile = DeviceProfile { limits, ..profile.clone() };
        let all = match self.kernels {
            Chosen => KernelChoice::new(&profile, rows, cols).map(|choice| vec![choice]),
            _ => KernelChoice::every(&profile, rows, cols),
        };
        let mut all = all.expect("the widths of the table are below 2^32");
        if matches!(self.kernels, OnePair) {
            let (pairs, single): (Vec<_>, _) = all.into_iter().partition(|it| it.kernels().count() == 2);
            all = single;
            all.extend(if size_of::<I>() == 4 { pairs.last() } else { pairs.first() });
        }
        all.retain(|choice| cluster_threads(choice) <= self.cluster[1]);
        match self.kernels {
            Narrow => all.retain(|choice| {
                let narrow = <I as ForwardTo<O>>::FORWARD.narrow;
                let is_narrow = |name| narrow.iter().any(|variant| variant.meta.name == name);
                choice.kernels().any(|meta| is_narrow(meta.name))
            }),
            Clusters => all.retain(|choice| cluster_threads(choice) > 0),
            UpTo(block) => all.retain(|it| it.config().is_some_and(|config| config.block.x <= block)),
            All | OnePair | Chosen | Widest => {}
        }
        all
    }

    /// The cases of a pair of types; `case` creates one from a problem and a launch.
    fn of<I: Number + SoftmaxAs<O>, O: Number>(
        &self,
        setting: &Setting,
        case: impl Fn(Later<Forward>, KernelChoice<I, O>) -> Case,
    ) -> Vec<Case> {
        let mut cases = Vec::new();
        let ([few, many], is_hard) = match self.rows {
            Random(few, many) => ([few, many], false),
            RandomAndHard(rows) => ([rows; 2], true),
        };
        // Up to a vector less fits in addition to the vectors that a kernel holds.
        let beside = 16 / size_of::<I>() - 1;
        let kernels = <I as ForwardTo<O>>::FORWARD;
        let all = kernels.variants.iter().chain(kernels.clusters);
        let all = all.filter(|_| matches!(self.kernels, Widest));
        let widest = all.map(|variant| (variant.elements as usize + beside, Some(variant.meta.name)));
        let narrow = kernels.narrow.iter().filter(|_| matches!(self.kernels, Widest));
        let widest = widest.chain(narrow.map(|it| (it.elements as usize, Some(it.meta.name))));
        for (cols, only) in self.widths.iter().map(|&cols| (cols, None)).chain(widest) {
            for (rows, has_many) in [(few, false), (many, true)] {
                let logits = Later::new(move || with_hard_rows(rows, cols, is_hard));
                let all_rows = if is_hard { logits.len() / cols } else { rows };
                for first in (0..all_rows).step_by(setting.most_rows) {
                    let rows = setting.most_rows.min(all_rows - first);
                    let logits = (logits.clone(), first * cols);
                    let mut choices = self.choices::<I, O>(&setting.profile, [rows, cols]);
                    if let Some(name) = only {
                        choices.retain(|choice| choice.kernels().any(|meta| meta.name == name));
                        choices.truncate(1);
                    }
                    for choice in choices {
                        if has_many == choice.config().is_some_and(|config| config.grid.x > rows as u32) {
                            let problems = self.problems(cases.len(), [rows, cols], &logits);
                            cases.extend(problems.into_iter().map(|problem| case(problem, choice)));
                        }
                    }
                }
            }
        }
        cases
    }

    /// The inputs of a launch: the options and layouts at this index, and the logits from this element.
    fn problems(
        &self,
        i: usize,
        [rows, cols]: [usize; 2],
        (logits, first): &(Later<Vec<f32>>, usize),
    ) -> Vec<Later<Forward>> {
        let place =
            |offset: usize, gap: usize| Layout::dense(rows, cols).with_stride(cols + gap).with_offset(offset);
        let [out, inp] = [[0, 0], [1, 1], [3, 0], [0, 3], [1, 3]][i % 5];
        let [out_gap, inp_gap] = [[0, 0], [5, 8], [0, 3], [16, 0]][i % 4];
        let in_turn = [place(out, out_gap), place(inp, inp_gap)];
        let problem = |layouts, options| {
            let (logits, range) = (logits.clone(), *first..*first + rows * cols);
            Later::new(move || Forward { layouts, options, logits: logits[range].to_vec() })
        };
        match &self.how {
            InTurns(all) => vec![problem(in_turn, all[i % all.len()])],
            Each(all) => all.iter().map(|&options| problem(in_turn, options)).collect(),
            Apart(options) => vec![problem([apart(rows, cols); 2], *options)],
            InPlace => vec![problem([place(i % 2, [0, 3, 7, 0][i % 4]); 2], PLAIN)],
        }
    }
}
