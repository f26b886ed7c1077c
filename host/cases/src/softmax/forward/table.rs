//! The table of problems, and the cases that come of it.

use std::sync::Arc;

use cuda_std::half::{bf16, f16};
use cuda_std::launch::Limits;
use cuda_std::testing::Layout;
use ferrowarp::softmax::{Choice, Options, Target};
use gpu_kernels::element::DType;
use gpu_kernels::softmax::operation::{FORWARD, Forward as Kernels};

use super::{Forward, cluster_threads};
use crate::softmax::{Real, Setting, apart, with_hard_rows};
use crate::{Case, Scope};

/// A row of the table.
struct Sweep {
    scope: Scope,
    name: &'static str,
    widths: &'static [usize],
    /// Rows for kernels of a block, or a part of it, for a row, and for those of many blocks, which cost the CPU most.
    rows: [usize; 2],
    /// Whether the rows that are hard on a softmax follow them.
    is_hard: bool,
    places: Places,
    /// Each is run; where there are none, they go round.
    options: &'static [Options],
    /// The most threads of a block.
    block: u32,
    /// The most blocks of a cluster, and threads.
    cluster: [u32; 2],
    kernels: Which,
}

/// Where matrices lie.
enum Places {
    /// That goes round from case to case.
    InTurns,
    /// Off a boundary, with elements between the rows.
    Apart,
    /// In place: the same bits as from one matrix into another that lies as far from a boundary.
    InPlace,
}

/// Which kernels are run.
enum Which {
    All,
    /// Of the pairs for wide rows, which are the same but for type and number of parts, one: of `f32` with the most parts.
    OnePair,
    /// Those of clusters.
    Clusters,
    /// What is chosen for the shape.
    Chosen,
    /// At the widest row that a kernel holds, that kernel.
    Widest,
}

const PLAIN: Options = Options::new();
const IN_TURNS: [Options; 6] =
    [PLAIN, PLAIN.log(), PLAIN.scale(0.37), PLAIN.zero_masked(), PLAIN.log().scale(2.5).zero_masked(), PLAIN];

/// Rows of every kernel, in a scope.
const fn sweep(scope: Scope, name: &'static str, widths: &'static [usize], rows: [usize; 2]) -> Sweep {
    let (places, kernels) = (Places::InTurns, Which::All);
    let (block, cluster) = (u32::MAX, [u32::MAX; 2]);
    Sweep { scope, name, widths, rows, is_hard: false, places, options: &[], block, cluster, kernels }
}

const TABLE: &[Sweep] = &{
    use Scope::{Device, Executor, NewEmulator, OldEmulator, Small, Tiny};
    const NONE: [u32; 2] = [1, 0];
    [
        // The first row lies on a boundary of 16 bytes and the second does not.
        Sweep {
            cluster: NONE,
            kernels: Which::OnePair,
            places: Places::Apart,
            options: &[PLAIN],
            ..sweep(Tiny, "", &[35], [1, 1])
        },
        Sweep {
            cluster: [2, 2048],
            kernels: Which::Clusters,
            places: Places::Apart,
            options: &[PLAIN],
            ..sweep(Tiny, "", &[67], [1, 1])
        },
        Sweep {
            cluster: NONE,
            places: Places::Apart,
            options: &[PLAIN],
            ..sweep(Small, "", &[35, 1157], [3, 3])
        },
        Sweep {
            cluster: [4, 4096],
            kernels: Which::Clusters,
            places: Places::Apart,
            options: &[PLAIN],
            ..sweep(Small, "", &[1157], [1, 1])
        },
        Sweep { cluster: NONE, ..sweep(OldEmulator, "", &[1], [9, 9]) },
        Sweep { cluster: NONE, ..sweep(OldEmulator, "", &[33], [5, 5]) },
        Sweep { cluster: NONE, ..sweep(OldEmulator, "", &[519], [1, 1]) },
        // Enough warps to see how they merge.
        Sweep {
            cluster: NONE,
            is_hard: true,
            options: &[PLAIN],
            block: 128,
            ..sweep(OldEmulator, "", &[133], [0, 0])
        },
        Sweep { cluster: [2, 2048], ..sweep(NewEmulator, "", &[33], [3, 3]) },
        Sweep { cluster: [2, 2048], ..sweep(NewEmulator, "", &[1031], [1, 1]) },
        Sweep {
            cluster: [2, 2048],
            is_hard: true,
            options: &[PLAIN],
            block: 128,
            ..sweep(NewEmulator, "", &[133], [0, 0])
        },
        Sweep { cluster: [16, 2048], ..sweep(Executor, "narrow rows", &[1, 2, 3, 31, 32, 33, 127], [14, 2]) },
        Sweep {
            cluster: [16, 4096],
            ..sweep(Executor, "rows of some warps", &[1023, 1024, 1025, 4099], [7, 2])
        },
        // More threads have more stacks than a process has mappings.
        Sweep { cluster: [16, 8192], ..sweep(Executor, "wide rows", &[33_001, 65_537], [2, 2]) },
        Sweep {
            cluster: [16, 8192],
            kernels: Which::Widest,
            options: &[PLAIN],
            ..sweep(Executor, "widest rows", &[0], [3, 3])
        },
        Sweep {
            cluster: [16, 2048],
            is_hard: true,
            options: &[PLAIN, PLAIN.log(), PLAIN.zero_masked()],
            ..sweep(Executor, "hard rows", &[133, 2053], [0, 0])
        },
        Sweep {
            cluster: [16, 8192],
            places: Places::InPlace,
            options: &[PLAIN],
            ..sweep(Executor, "in place", &[5, 133, 1025, 4099], [3, 3])
        },
        Sweep { places: Places::Apart, options: &[PLAIN], ..sweep(Device, "", &[1], [3, 3]) },
        Sweep {
            places: Places::Apart,
            options: &[PLAIN.log().scale(0.5)],
            is_hard: true,
            ..sweep(Device, "", &[35], [3, 3])
        },
        Sweep {
            places: Places::Apart,
            options: &[PLAIN.zero_masked()],
            is_hard: true,
            ..sweep(Device, "", &[2053], [3, 3])
        },
        // Widths that fill the registers, from narrow ones to clusters and the pair.
        Sweep {
            places: Places::InPlace,
            options: &[PLAIN],
            kernels: Which::Chosen,
            ..sweep(Device, "", &[67, 515, 3079, 16_391, 40_000, 300_001], [3, 3])
        },
    ]
};

/// The cases of the setting in those rows of the table that have a chosen name.
pub fn cases(setting: &Setting, chosen: impl Fn(&str) -> bool) -> Vec<Case> {
    let rows = TABLE.iter().filter(|sweep| sweep.scope == setting.scope && chosen(sweep.name));
    rows.flat_map(|sweep| of_each_pair(&sweep.of(setting))).collect()
}

/// What makes cases for a pair of types.
pub trait OfPair {
    /// Those with the kernels from `I` to `O`.
    fn of<I: Real, O: Real>(&self, kernels: &'static Kernels) -> Vec<Case>;
}

/// The cases of every pair of types that there are kernels for.
pub fn of_each_pair(cases: &impl OfPair) -> Vec<Case> {
    let of = |kernels: &'static Kernels| match (kernels.from, kernels.to) {
        (DType::F32, DType::F32) => cases.of::<f32, f32>(kernels),
        (DType::F32, DType::F16) => cases.of::<f32, f16>(kernels),
        (DType::F32, DType::Bf16) => cases.of::<f32, bf16>(kernels),
        (DType::F16, DType::F32) => cases.of::<f16, f32>(kernels),
        (DType::F16, DType::F16) => cases.of::<f16, f16>(kernels),
        (DType::F16, DType::Bf16) => cases.of::<f16, bf16>(kernels),
        (DType::Bf16, DType::F32) => cases.of::<bf16, f32>(kernels),
        (DType::Bf16, DType::F16) => cases.of::<bf16, f16>(kernels),
        (DType::Bf16, DType::Bf16) => cases.of::<bf16, bf16>(kernels),
    };
    FORWARD.iter().flat_map(of).collect()
}

impl Sweep {
    fn of<'a>(&'static self, setting: &'a Setting) -> InSetting<'a> {
        InSetting { sweep: self, setting }
    }

    /// The launches for a shape.
    fn choices(&self, target: &Target, kernels: &'static Kernels, shape: [usize; 2]) -> Vec<Choice> {
        let [rows, cols] = shape;
        let max_cluster = target.limits.max_cluster.min(self.cluster[0]);
        let target = Target { limits: Limits { max_cluster, ..target.limits.clone() }, ..target.clone() };
        let chosen = || Choice::new(kernels, &target, rows, cols).map(|choice| vec![choice]);
        let all = match self.kernels {
            Which::Chosen => chosen(),
            _ => Choice::every(kernels, &target, rows, cols),
        };
        // A row of 2^32 elements is none of the table's.
        let all = all.unwrap_or_default();
        let mut pairs =
            all.iter().map(|choice| choice.kernels().count() == 2).enumerate().filter(|(_, is)| *is);
        let one = if kernels.from == DType::F32 { pairs.next_back() } else { pairs.next() };
        let suits = |&(i, choice): &(usize, &Choice)| {
            let config = choice.config();
            config.is_some_and(|config| config.block.x <= self.block)
                && cluster_threads(choice) <= self.cluster[1]
                && match self.kernels {
                    Which::OnePair => choice.kernels().count() == 1 || one.is_some_and(|(one, _)| i == one),
                    Which::Clusters => cluster_threads(choice) > 0,
                    Which::All | Which::Chosen | Which::Widest => true,
                }
        };
        all.iter().enumerate().filter(suits).map(|(_, choice)| *choice).collect()
    }
}

/// A row of the table in a setting.
struct InSetting<'a> {
    sweep: &'static Sweep,
    setting: &'a Setting,
}

impl OfPair for InSetting<'_> {
    fn of<I: Real, O: Real>(&self, kernels: &'static Kernels) -> Vec<Case> {
        let Self { sweep, setting } = self;
        let mut cases = Vec::new();
        if matches!(sweep.places, Places::InPlace) && kernels.from != kernels.to {
            return cases;
        }
        if matches!(sweep.kernels, Which::Widest) {
            let vector = 16 / kernels.from.size();
            for tier in kernels.tiers.iter().chain(kernels.clusters) {
                let cols = tier.elements as usize + vector - 1;
                let choices = sweep.choices(&setting.target, kernels, [sweep.rows[0], cols]);
                let is_it = |choice: &&Choice| choice.kernels().any(|meta| meta.name == tier.meta.name);
                let choice =
                    choices.iter().find(is_it).unwrap_or_else(|| panic!("{} holds {cols}", tier.meta.name));
                self.add::<I, O>(&mut cases, choice, with_hard_rows(sweep.rows[0], cols, false));
            }
            return cases;
        }
        for &cols in sweep.widths {
            for (rows, has_many) in [(sweep.rows[0], false), (sweep.rows[1], true)] {
                let logits = with_hard_rows(rows, cols, sweep.is_hard);
                for logits in logits.chunks(setting.most_rows.saturating_mul(cols)) {
                    let rows = logits.len() / cols;
                    for choice in sweep.choices(&setting.target, kernels, [rows, cols]) {
                        if has_many == choice.config().is_some_and(|config| config.grid.x > rows as u32) {
                            self.add::<I, O>(&mut cases, &choice, logits.to_vec());
                        }
                    }
                }
            }
        }
        cases
    }
}

impl InSetting<'_> {
    /// Adds the cases of a launch: with the options and places that are its turn.
    fn add<I: Real, O: Real>(&self, cases: &mut Vec<Case>, choice: &Choice, logits: Vec<f32>) {
        let i = cases.len();
        let [rows, cols] = choice.shape();
        let place =
            |offset: usize, gap: usize| Layout::dense(rows, cols).with_stride(cols + gap).with_offset(offset);
        let layouts = match self.sweep.places {
            Places::Apart => [apart(rows, cols); 2],
            Places::InPlace => [place(i % 2, [0, 3, 7, 0][i % 4]); 2],
            Places::InTurns => {
                let [out, inp] = [[0, 0], [1, 1], [3, 0], [0, 3], [1, 3]][i % 5];
                let [out_gap, inp_gap] = [[0, 0], [5, 8], [0, 3], [16, 0]][i % 4];
                [place(out, out_gap), place(inp, inp_gap)]
            }
        };
        let in_turn = [IN_TURNS[i % 6]];
        let options = if self.sweep.options.is_empty() { &in_turn } else { self.sweep.options };
        for &options in options {
            let problem = Arc::new(Forward { layouts, options, logits: logits.clone() });
            cases.push(match self.sweep.places {
                Places::InPlace => problem.case_in_place::<I>(*choice),
                _ => problem.case::<I, O>(*choice),
            });
        }
    }
}
