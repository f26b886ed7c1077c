//! What the gradient of a softmax and cross entropy have in common: kernels that each hold rows up to a width.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::Limits;
use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use gpu_kernels::softmax::operation::Variant;

use super::{Setting, apart, told};
use crate::compare::{Expected, Outputs};
use crate::reference::Number;
use crate::{Case, Scope};

/// A problem of an operation on rows.
pub trait Rowwise: Send + Sync + Sized + 'static {
    /// What the kernels are launched with.
    type Args<T: Number>: 'static;
    /// The operation, in words.
    const NAME: &'static str;
    /// What is run where.
    const SWEEPS: &'static [Sweep];

    /// The kernels for a type.
    fn variants<T: Number>() -> &'static [Variant<Self::Args<T>>];
    /// Numbers for matrices that lie so, the same for the same seed.
    fn random(layouts: [Layout; 3], seed: u64) -> Self;
    /// Where the matrices lie.
    fn layouts(&self) -> &[Layout];
    /// What a kernel gives, in memory of its own or in that of what it reads.
    ///
    /// # Errors
    /// The kernel failed, or wrote where it must not.
    fn run<T: Number>(
        &self,
        device: &Device,
        variant: &Variant<Self::Args<T>>,
        in_place: bool,
    ) -> Result<Outputs>;
    /// What it must give.
    fn expected<T: Number>(&self) -> Expected;

    /// The kernels for a type that hold rows of this width and run on a device with these limits.
    fn holding<T: Number>(
        cols: usize,
        limits: &Limits,
    ) -> impl Iterator<Item = &'static Variant<Self::Args<T>>> {
        let suits =
            move |variant: &&Variant<_>| cols <= variant.elements as usize && limits.runs(variant.meta);
        Self::variants::<T>().iter().filter(suits)
    }

    /// The case of a kernel.
    fn case<T: Number>(self: &Arc<Self>, variant: &'static Variant<Self::Args<T>>, in_place: bool) -> Case {
        let place = if in_place { "in place, " } else { "" };
        let words = format!("{} of {}, {place}{}", Self::NAME, T::NAME, told(self.layouts()));
        let (problem, of) = (Arc::clone(self), Arc::clone(self));
        let run = move |device: &Device| problem.run::<T>(device, variant, in_place);
        Case::new(vec![variant.meta.name], words, run, move || of.expected::<T>())
    }

    /// The cases of all kernels for a type that hold the rows and run on a device with these limits, every other one in
    /// place.
    fn cases<T: Number>(self: &Arc<Self>, limits: &Limits) -> Vec<Case> {
        let variants = Self::holding::<T>(self.layouts()[0].cols, limits).enumerate();
        variants.map(|(i, variant)| self.case::<T>(variant, i % 2 == 1)).collect()
    }

    /// As [`Self::cases`], each in memory of its own and in place.
    fn cases_in_both_places<T: Number>(self: &Arc<Self>, limits: &Limits) -> Vec<Case> {
        let variants = Self::holding::<T>(self.layouts()[0].cols, limits);
        variants.flat_map(|variant| [false, true].map(|in_place| self.case::<T>(variant, in_place))).collect()
    }

    /// [`Self::cases`] for each type.
    fn cases_of_each_type(self: &Arc<Self>, limits: &Limits) -> Vec<Case> {
        let mut all = self.cases::<f32>(limits);
        all.extend(self.cases::<f16>(limits));
        all.extend(self.cases::<bf16>(limits));
        all
    }
}

/// Problems of a scope.
pub struct Sweep {
    /// Where they are run.
    pub scope: Scope,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub widths: Widths,
    /// How many seeds each has.
    pub seeds: u64,
}

/// The widths of a sweep.
pub enum Widths {
    /// These, on every kernel that holds them.
    All(&'static [usize]),
    /// These, or the widest row that a kernel holds.
    UpTo(&'static [usize]),
    /// The widest row of each kernel, and for those that take any width some more.
    Widest,
}

impl Widths {
    /// The kernels, each with its widths.
    fn of<P: Rowwise, T: Number>(&self, limits: &Limits) -> Vec<(&'static Variant<P::Args<T>>, usize)> {
        match self {
            Self::All(widths) => widths
                .iter()
                .flat_map(|&cols| P::holding::<T>(cols, limits).map(move |variant| (variant, cols)))
                .collect(),
            Self::UpTo(widths) => {
                let mut all = Vec::new();
                for variant in P::holding::<T>(0, limits) {
                    let mut widths: Vec<_> =
                        widths.iter().map(|&cols| cols.min(variant.elements as usize)).collect();
                    widths.dedup();
                    all.extend(widths.into_iter().map(|cols| (variant, cols)));
                }
                all
            }
            Self::Widest => {
                let widest = |before: &mut usize, variant: &'static Variant<P::Args<T>>| {
                    let any = variant.elements == u32::MAX;
                    *before = if any { *before + 1111 } else { variant.elements as usize };
                    Some((variant, *before))
                };
                P::holding::<T>(0, limits).scan(0, widest).collect()
            }
        }
    }
}

/// The cases of an operation in a setting.
pub(super) fn cases<P: Rowwise>(setting: &Setting) -> Vec<Case> {
    let mut all = of_type::<P, f32>(setting);
    all.extend(of_type::<P, f16>(setting));
    all.extend(of_type::<P, bf16>(setting));
    all
}

fn of_type<P: Rowwise, T: Number>(setting: &Setting) -> Vec<Case> {
    let (mut cases, scope, limits) = (Vec::new(), setting.scope, &setting.profile.limits);
    for sweep in P::SWEEPS.iter().filter(|sweep| sweep.scope == scope) {
        let mut problems: HashMap<_, Arc<P>> = HashMap::new();
        for (i, (variant, cols)) in sweep.widths.of::<P, T>(limits).into_iter().enumerate() {
            for kind in 0..sweep.seeds {
                let is_dense = matches!(scope, Scope::Executor | Scope::OldEmulator | Scope::NewEmulator);
                let layout = if is_dense { Layout::dense(sweep.rows, cols) } else { apart(sweep.rows, cols) };
                let seed = (sweep.rows * 10_000 + cols) as u64 * sweep.seeds + kind;
                let problem = problems.entry(seed).or_insert_with(|| Arc::new(P::random([layout; 3], seed)));
                match scope {
                    Scope::Executor => cases.extend([false, true].map(|it| problem.case::<T>(variant, it))),
                    Scope::OldEmulator | Scope::NewEmulator => {
                        cases.push(problem.case::<T>(variant, i % 2 == 1))
                    }
                    Scope::Tiny | Scope::Small | Scope::Device => {
                        cases.push(problem.case::<T>(variant, false))
                    }
                }
            }
        }
    }
    cases
}
