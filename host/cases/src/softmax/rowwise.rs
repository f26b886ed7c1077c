//! The common part of softmax's gradient and cross entropy: kernels that each hold rows up to a width.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::Limits;
use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use gpu_kernels::softmax::operation::{RowVariants, Spread};

use crate::case::Case;
use crate::compare::{Expected, Outputs};
use crate::later::Later;
use crate::reference::Number;
use crate::scopes::{Scope, Setting, cases_of_types};

/// A problem of an operation on rows.
pub trait Rowwise: Send + Sync + Sized + 'static {
    /// The arguments of the kernels.
    type Args<T: Number>: 'static;
    /// The operation, in words.
    const NAME: &'static str;
    /// Whether the output may replace an input.
    const IN_PLACE: bool = true;
    /// The problems of each scope.
    const SWEEPS: &'static [Sweep];

    /// The kernels for a type.
    fn kernels<T: Number>() -> &'static RowVariants<Self::Args<T>>;
    /// Numbers for matrices of these layouts, the same for the same seed.
    fn random(layouts: [Layout; 3], seed: u64) -> Self;
    /// The layouts of the matrices; the last is the one whose rows the kernels hold.
    fn layouts(&self) -> &[Layout];
    /// The columns of the last one.
    fn cols(&self) -> usize {
        self.layouts().last().map_or(0, |layout| layout.cols)
    }
    /// The outputs of a kernel, in separate memory or in place of an input.
    ///
    /// # Errors
    /// The kernel failed, or wrote outside its output.
    fn run<T: Number>(
        &self,
        device: &Device,
        kernel: Spread<Self::Args<T>>,
        in_place: bool,
    ) -> Result<Outputs>;
    /// The expected outputs.
    fn expected<T: Number>(&self) -> Expected;

    /// The kernels for a type that hold rows of this width and run on a device with these limits, on each number of blocks.
    /// Those that hold rows in shared memory are last.
    fn holding<T: Number>(cols: usize, limits: &Limits) -> impl Iterator<Item = Spread<Self::Args<T>>> {
        let &RowVariants { variants, staged, .. } = Self::kernels::<T>();
        let variants = variants.iter().filter(move |variant| cols <= variant.elements as usize);
        let suits = move |kernel: &Spread<_>| limits.runs(kernel.variant.meta);
        let staged = staged.into_iter().flat_map(move |variant| Spread::staged(variant, limits, cols));
        variants.map(Spread::one).filter(suits).chain(staged)
    }

    /// The case of a kernel.
    fn case<T: Number>(self: &Arc<Self>, kernel: Spread<Self::Args<T>>, in_place: bool) -> Case {
        case::<Self, T>(self, kernel, in_place)
    }

    /// The cases of all kernels for a type that hold the rows and run on a device with these limits, in clusters of at most
    /// two blocks; every second one is in place.
    fn cases<T: Number>(self: &Arc<Self>, limits: &Limits) -> Vec<Case> {
        let limits = with_clusters_of(2, limits);
        let kernels = Self::holding::<T>(self.cols(), &limits).enumerate();
        kernels.map(|(i, kernel)| self.case::<T>(kernel, Self::IN_PLACE && i % 2 == 1)).collect()
    }

    /// Same as [`Self::cases`], each in separate memory and in place.
    fn cases_in_both_places<T: Number>(self: &Arc<Self>, limits: &Limits) -> Vec<Case> {
        let kernels = Self::holding::<T>(self.cols(), limits);
        kernels.flat_map(|kernel| [false, true].map(|in_place| self.case::<T>(kernel, in_place))).collect()
    }

    /// [`Self::cases`] for each type.
    fn cases_of_each_type(self: &Arc<Self>, limits: &Limits) -> Vec<Case> {
        cases_of_types!(f32, f16, bf16 => self.cases::<T>(limits))
    }
}

/// Problems of a scope.
pub struct Sweep {
    /// The scope that runs them.
    pub scope: Scope,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub widths: Widths,
    /// The number of seeds.
    pub seeds: u64,
}

/// A row of a table.
pub(super) const fn sweep(scope: Scope, rows: usize, widths: Widths, seeds: u64) -> Sweep {
    Sweep { scope, rows, widths, seeds }
}

/// The widths of a sweep.
pub enum Widths {
    /// These widths, on every kernel that holds them.
    All(&'static [usize]),
    /// These widths, or the widest row that a kernel holds.
    UpTo(&'static [usize]),
    /// These widths, on the kernels that hold them in shared memory.
    Staged(&'static [usize]),
    /// The widest row of each kernel, and some more for kernels without a maximum.
    Widest,
}

impl Widths {
    /// The kernels, each with its widths.
    fn of<P: Rowwise, T: Number>(&self, limits: &Limits) -> Vec<(Spread<P::Args<T>>, usize)> {
        let holding = |cols: usize| P::holding::<T>(cols, limits).map(move |kernel| (kernel, cols));
        let is_staged = |(kernel, _): &(Spread<_>, usize)| kernel.variant.staged.is_some();
        match self {
            Self::All(widths) => widths.iter().flat_map(|&cols| holding(cols)).collect(),
            Self::Staged(widths) => widths.iter().flat_map(|&cols| holding(cols).filter(is_staged)).collect(),
            Self::UpTo(widths) => {
                let mut all = Vec::new();
                for (kernel, _) in holding(0) {
                    let mut widths: Vec<_> =
                        widths.iter().map(|&cols| cols.min(kernel.variant.elements as usize)).collect();
                    widths.dedup();
                    all.extend(widths.into_iter().map(|cols| (kernel, cols)));
                }
                all
            }
            Self::Widest => {
                let widest = |before: &mut usize, (kernel, _): (Spread<P::Args<T>>, usize)| {
                    let any = kernel.variant.elements == u32::MAX;
                    *before = if any { *before + 1111 } else { kernel.variant.elements as usize };
                    Some((kernel, *before))
                };
                let most = limits.max_dynamic_shared_bytes as usize;
                let all = holding(0).scan(0, widest);
                all.filter(|(kernel, cols)| kernel.shared_bytes(*cols) <= most).collect()
            }
        }
    }
}

fn case<P: Rowwise, T: Number>(
    problem: impl Into<Later<P>>,
    kernel: Spread<P::Args<T>>,
    in_place: bool,
) -> Case {
    let count = kernel.blocks;
    let words = move |of: &P| {
        let place = if in_place { "in place, " } else { "" };
        let blocks = if count > 1 { format!("{count} blocks a row, ") } else { String::new() };
        format!("{} of {}, {blocks}{place}{}", P::NAME, T::NAME, told(of.layouts()))
    };
    let run = move |of: &P, device: &Device| of.run::<T>(device, kernel, in_place);
    Case::of(problem, vec![kernel.variant.meta.name], words, run, P::expected::<T>)
        .with_cluster_threads(cluster_threads(&kernel))
}

/// Threads per cluster; 0 without clusters.
fn cluster_threads<A>(kernel: &Spread<A>) -> u32 {
    if kernel.blocks > 1 { kernel.blocks * kernel.variant.block } else { 0 }
}

/// The limits with clusters of at most `most` blocks.
fn with_clusters_of(most: u32, limits: &Limits) -> Limits {
    Limits { max_cluster: limits.max_cluster.min(most), ..limits.clone() }
}

/// The cases of an operation in a setting.
pub(super) fn cases<P: Rowwise>(setting: &Setting) -> Vec<Case> {
    cases_of_types!(f32, f16, bf16 => of_type::<P, T>(setting))
}

fn of_type<P: Rowwise, T: Number>(setting: &Setting) -> Vec<Case> {
    let (mut cases, scope) = (Vec::new(), setting.scope);
    let is_whole = matches!(scope, Scope::Executor | Scope::Device);
    let limits = with_clusters_of(if is_whole { 16 } else { 2 }, &setting.profile.limits);
    for sweep in P::SWEEPS.iter().filter(|sweep| sweep.scope == scope) {
        let mut problems: HashMap<_, Later<P>> = HashMap::new();
        for (i, (kernel, cols)) in sweep.widths.of::<P, T>(&limits).into_iter().enumerate() {
            // Rows of many blocks are slowest on the CPU. There are two, so that one can prefetch the other.
            let rows = match kernel.variant.staged {
                Some(_) if kernel.blocks > 1 => sweep.rows.min(2).min(setting.most_rows),
                Some(_) => sweep.rows.min(2),
                None => sweep.rows,
            };
            for kind in 0..sweep.seeds {
                let is_dense = matches!(scope, Scope::Executor | Scope::OldEmulator | Scope::NewEmulator);
                let layout = if is_dense { Layout::dense(rows, cols) } else { apart(rows, cols) };
                let seed = (rows * 10_000 + cols) as u64 * sweep.seeds + kind;
                let random = move || P::random([layout; 3], seed);
                let problem = problems.entry((rows, seed)).or_insert_with(|| Later::new(random));
                match scope {
                    Scope::Executor => {
                        let places = [false, true].into_iter().filter(|&in_place| P::IN_PLACE || !in_place);
                        cases.extend(places.map(|in_place| case::<P, T>(&*problem, kernel, in_place)));
                    }
                    Scope::OldEmulator | Scope::NewEmulator => {
                        cases.push(case::<P, T>(&*problem, kernel, P::IN_PLACE && i % 2 == 1))
                    }
                    Scope::Tiny | Scope::Small | Scope::Device => {
                        cases.push(case::<P, T>(&*problem, kernel, false))
                    }
                }
            }
        }
    }
    cases
}

/// Rows that are misaligned by 4 or 2 bytes, with elements in between.
pub(super) fn apart(rows: usize, cols: usize) -> Layout {
    Layout::dense(rows, cols).with_stride(cols + 3).with_offset(1)
}

/// A matrix layout, in words.
pub(super) fn told(layouts: &[Layout]) -> String {
    let Layout { rows, cols, .. } = layouts[0];
    let places: Vec<_> = layouts.iter().map(|l| format!("{}+{}", l.offset, l.stride)).collect();
    format!("{rows}x{cols} at {}", places.join(", "))
}
