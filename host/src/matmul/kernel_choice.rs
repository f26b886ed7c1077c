//! Chooses the kernel for a multiplication.
//!
//! Up to [`FEW_ROWS`] rows take [`few_rows`](matmul_kernels::operation::few_rows), if it can do the layout, with at most
//! [`FEW_ROWS_BLOCKS`] blocks per multiprocessor. For the rest, [the model](super::estimate) ranks every kernel that can do
//! the layout, with every number of splits that leaves each split at least [`LEAST_TERMS`] terms.

use std::fmt;
use std::ops::RangeInclusive;

use cuda_std::launch::{KernelMeta, KernelOf};
use ferrowarp_device::DeviceProfile;
use ferrowarp_device::error::Error;
use matmul_kernels::args::MatmulArgs;
use matmul_kernels::operation::{
    ALIGN, FOLD, FewRowsShape, SPLIT, THREE_PRODUCTS, TRANSPOSE, TileShape, WarpgroupShape,
};

use super::types::{NAME, Precision};
use crate::element::Element;
use crate::operation::no_kernel;

/// The fewest terms of a split.
const LEAST_TERMS: u32 = 256;
/// The same if the blocks of a cluster add up their sums.
const LEAST_TERMS_IN_CLUSTER: u32 = 128;
/// The most splits.
const MOST_SPLITS: u32 = 32;
/// The most rows for which the model does not choose: with and without tensor cores.
const FEW_ROWS: [u32; 2] = [64, 16];
/// The fewest elements of B whose rows are folded, which takes another launch.
const LEAST_FOLDED: u64 = 1 << 20;
/// Blocks per multiprocessor if a cluster splits k: for tiles of up to 32 rows, and of more. Two would fit, but then the
/// last clusters find no room: eight splits of 4096 columns take a fifth longer than seven.
const FEW_ROWS_BLOCKS: [f64; 2] = [1.7, 1.1];

/// The problem that a kernel is chosen for.
///
/// ```
/// use ferrowarp::matmul::Problem;
///
/// let two = Problem { batch: 2, b_is_transposed: true, ..Problem::new(128, 256, 64) };
/// assert_eq!((two.m, two.n, two.k), (128, 256, 64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Rows of the output.
    pub m: u32,
    /// Columns of the output.
    pub n: u32,
    /// Terms of each sum.
    pub k: u32,
    /// The number of matrices.
    pub batch: u32,
    /// Whether the first operand is stored transposed.
    pub a_is_transposed: bool,
    /// Whether the second operand is stored transposed.
    pub b_is_transposed: bool,
    /// How `f32` is multiplied.
    pub precision: Precision,
    /// Whether every row of the stored operands starts at a multiple of 16 bytes.
    pub is_aligned: bool,
    /// Whether every stored matrix of the second operand starts at a multiple of 16 bytes, and eight of its rows fit a tensor map.
    pub b_folds: bool,
    /// Whether the rows are multiples of 128 bytes (the lines of L2) apart.
    pub has_whole_lines: bool,
}

impl Problem {
    /// A single multiplication of aligned row-major matrices: `[m, k]` by `[k, n]`.
    pub const fn new(m: u32, n: u32, k: u32) -> Self {
        let precision = Precision::F32;
        Self {
            m,
            n,
            k,
            batch: 1,
            a_is_transposed: false,
            b_is_transposed: false,
            precision,
            is_aligned: true,
            b_folds: true,
            has_whole_lines: true,
        }
    }
}

/// The kernel chosen for a multiplication on a device.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::matmul::{KernelChoice, Problem};
/// use ferrowarp::{DeviceProfile, Error, bf16};
///
/// let profile = DeviceProfile::from(&Device::cpu());
/// let choice = KernelChoice::<bf16>::new(&profile, &Problem::new(64, 64, 64))?;
/// assert_eq!(choice.to_string(), "matmul_bf16_serial");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KernelChoice<T: 'static> {
    pub(super) kernel: Kernel<T>,
    pub(super) splits: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel<T: 'static> {
    Serial(&'static KernelOf<MatmulArgs<T>>),
    Tiles {
        kernel: &'static KernelOf<MatmulArgs<T>, TileShape>,
        /// Whether operands are copied to aligned rows first.
        aligns: bool,
    },
    FewRows {
        kernel: &'static KernelOf<MatmulArgs<T>, FewRowsShape>,
        /// Whether groups of rows of B are folded to aligned rows, after a copy of A.
        folds: bool,
    },
    Warpgroups {
        kernel: &'static KernelOf<MatmulArgs<T>, WarpgroupShape>,
        /// Whether operands are copied to aligned rows first.
        aligns: bool,
        /// Whether operands that the kernel needs as their transposes are copied first.
        transposes: bool,
    },
    /// Only for `f32`.
    ThreeProducts,
}

impl<T> Kernel<T> {
    /// The tile shape of a kernel for few rows, in which the blocks of a cluster split k.
    fn few_rows(&self) -> Option<&'static FewRowsShape> {
        match self {
            Kernel::FewRows { kernel, .. } => Some(kernel),
            _ => None,
        }
    }

    /// Whether rows of B are folded.
    fn folds(&self) -> bool {
        matches!(self, Kernel::FewRows { folds: true, .. })
    }

    /// The possible numbers of splits of a kernel for few rows: with folded rows, one for each row of a group.
    fn splits_in_cluster(&self, problem: &Problem) -> RangeInclusive<u32> {
        let most = (problem.k / LEAST_TERMS_IN_CLUSTER).clamp(1, FewRowsShape::MOST_IN_CLUSTER);
        let group = 16 / size_of::<T>() as u32;
        if self.folds() { group..=group } else { 1..=most }
    }
}

impl<T: Element> KernelChoice<T> {
    /// Chooses the kernel: for few rows the special one, otherwise the one with the smallest estimate.
    ///
    /// # Errors
    /// The device has no kernel for the problem.
    pub fn new(profile: &DeviceProfile, problem: &Problem) -> Result<Self, Error> {
        if profile.is_cpu {
            return Ok(Self { kernel: Kernel::Serial(T::SERIAL), splits: 1 });
        }
        if let Some(choice) = Self::of_few_rows(profile, problem) {
            return Ok(choice);
        }
        let with_estimate = Self::with_splits(profile, problem).map(|choice| {
            let estimate = choice.estimate(profile, problem);
            (choice, estimate)
        });
        let best = with_estimate.min_by(|(_, a), (_, b)| a.total_cmp(b));
        match (best, profile.with_absent_kernels()) {
            (Some((choice, _)), _) => Ok(choice),
            (None, Some(profile)) => Self::new(&profile, problem),
            (None, None) => {
                let needs =
                    "the kernels need tensor cores of 8.0 or later, so use a newer GPU or `Device::cpu()`";
                Err(no_kernel(NAME, profile.limits.capability, needs))
            }
        }
    }

    /// The kernel for few rows with the fewest tiles, and then the fewest rows per tile.
    fn of_few_rows(profile: &DeviceProfile, problem: &Problem) -> Option<Self> {
        let is_three = size_of::<T>() == 4 && problem.precision == Precision::F32;
        let of_b = (u64::from(problem.n) * u64::from(problem.k)).saturating_mul(problem.batch.into());
        if problem.m > FEW_ROWS[usize::from(is_three)] || !problem.is_aligned && of_b < LEAST_FOLDED {
            return None;
        }
        let kernels = of_tensor_cores::<T>(profile, problem);
        let with_tiles = kernels.filter_map(|kernel| Some((kernel, kernel.few_rows()?)));
        let fewest = |(_, tile): &(_, &FewRowsShape)| (problem.m.div_ceil(tile.rows), tile.rows);
        let (kernel, tile) = with_tiles.min_by_key(fewest)?;
        let tiles = problem.m.div_ceil(tile.rows) * problem.n.div_ceil(FewRowsShape::COLS);
        let blocks = FEW_ROWS_BLOCKS[usize::from(tile.rows > 32)] * profile.multiprocessors as f64;
        let splits = (blocks / f64::from(tiles.saturating_mul(problem.batch).max(1))).floor() as u32;
        let possible = kernel.splits_in_cluster(problem);
        Some(Self { kernel, splits: splits.clamp(*possible.start(), *possible.end()) })
    }

    /// Returns every kernel of the device that can do it, with every number of splits and its estimate in cycles, the
    /// smallest first. Kernels for few rows come last, with an infinite estimate.
    #[doc(hidden)]
    pub fn ranked(profile: &DeviceProfile, problem: &Problem) -> Vec<(Self, f64)> {
        let few_rows = of_tensor_cores::<T>(profile, problem).filter(|kernel| kernel.few_rows().is_some());
        let few_rows = few_rows
            .flat_map(|kernel| kernel.splits_in_cluster(problem).map(move |splits| Self { kernel, splits }));
        let choices = Self::with_splits(profile, problem).chain(few_rows);
        let mut ranked: Vec<_> = choices.map(|choice| (choice, choice.estimate(profile, problem))).collect();
        ranked.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        ranked
    }

    /// Returns every kernel of the device that can do it, with one split, and with three if there are terms for them.
    pub fn every(profile: &DeviceProfile, problem: &Problem) -> Vec<Self> {
        let serial = Some(T::SERIAL).filter(|kernel| profile.limits.runs(kernel.meta));
        let serial = serial.map(|kernel| Self { kernel: Kernel::Serial(kernel), splits: 1 });
        let all = of_tensor_cores::<T>(profile, problem).flat_map(|kernel| {
            let (terms, is_small) = match kernel {
                Kernel::Tiles { kernel, .. } => (kernel.terms, kernel.rows == 64 && kernel.cols == 64),
                Kernel::FewRows { kernel, .. } => (kernel.terms, kernel.rows == 32),
                Kernel::Warpgroups { kernel, .. } => (kernel.terms, false),
                Kernel::ThreeProducts => (THREE_PRODUCTS.terms, false),
                Kernel::Serial(_) => (1, false),
            };
            // Empty splits are covered with the small kernels only.
            let is_split =
                move |splits: &u32| *splits == 1 || kernel.folds() || terms < problem.k || is_small;
            // Splits of kernels with copies run the same code. Copies that are not needed are tried with one tile only.
            let (is_plain, is_wanted) = match kernel {
                Kernel::Tiles { aligns, .. } => (!aligns, true),
                Kernel::Warpgroups { kernel, aligns, transposes } => {
                    let is_smallest = kernel.rows.min(kernel.cols) == 64;
                    let is_needed = !transposes && (!aligns || !problem.is_aligned);
                    (!aligns && !transposes, is_needed || is_smallest)
                }
                _ => (true, true),
            };
            let group = 16 / size_of::<T>() as u32;
            let splits = if kernel.folds() { [Some(group), None] } else { [Some(1), Some(3)] };
            let splits = splits.into_iter().flatten().filter(is_split);
            let splits = splits.filter(move |splits| is_wanted && (*splits == 1 || is_plain));
            splits.map(move |splits| Self { kernel, splits })
        });
        serial.into_iter().chain(all).collect()
    }

    fn with_splits(profile: &DeviceProfile, problem: &Problem) -> impl Iterator<Item = Self> {
        let most = (problem.k / LEAST_TERMS).clamp(1, MOST_SPLITS);
        let kernels = of_tensor_cores::<T>(profile, problem).filter(|kernel| kernel.few_rows().is_none());
        kernels.flat_map(move |kernel| (1..=most).map(move |splits| Self { kernel, splits }))
    }

    /// The kernels that are launched, in order.
    pub fn kernels(&self) -> impl Iterator<Item = &'static KernelMeta> {
        let align = ALIGN[usize::from(size_of::<T>() == 4)].meta;
        let (copies, kernel) = match self.kernel {
            Kernel::Serial(kernel) => ([None; 2], kernel.meta),
            Kernel::Tiles { kernel, aligns } => ([aligns.then_some(align), None], kernel.meta),
            Kernel::FewRows { kernel, folds } => {
                ([folds.then_some(FOLD[usize::from(size_of::<T>() == 4)].meta), None], kernel.meta)
            }
            Kernel::Warpgroups { kernel, aligns, transposes } => {
                ([aligns.then_some(align), transposes.then_some(TRANSPOSE.meta)], kernel.meta)
            }
            Kernel::ThreeProducts => ([Some(SPLIT.meta), None], THREE_PRODUCTS.meta),
        };
        let reduce = self.needs_sums().then_some(T::REDUCE.meta);
        copies.into_iter().flatten().chain([kernel]).chain(reduce)
    }

    /// Whether a second launch adds up the sums of the splits.
    pub(super) fn needs_sums(&self) -> bool {
        self.splits > 1 && self.kernel.few_rows().is_none()
    }

    /// The number of blocks that share the sums of a tile.
    pub fn splits(&self) -> u32 {
        self.splits
    }
}

/// The device's tensor-core kernels for the layout and the alignment.
fn of_tensor_cores<T: Element>(
    profile: &DeviceProfile,
    problem: &Problem,
) -> impl Iterator<Item = Kernel<T>> {
    let is_f32 = size_of::<T>() == 4;
    let is_three = is_f32 && problem.precision == Precision::F32;
    let along_k = [!problem.a_is_transposed, problem.b_is_transposed];
    let limits = profile.limits.clone();
    let fits = move |meta, shared_bytes| limits.runs(meta) && shared_bytes <= limits.max_dynamic_shared_bytes;
    let fits_too = fits.clone();
    let tiles = T::TILES.iter().filter(move |kernel| {
        [kernel.a_along_k, kernel.b_along_k] == along_k
            && kernel.is_three_products == is_three
            && fits(kernel.meta, kernel.shared_bytes)
    });
    // A tensor map has no dimension of 0. Its kernels count tiles in 32 bits, and the copying kernels count chunks.
    let &Problem { m, n, k, batch, is_aligned, has_whole_lines, .. } = problem;
    let (fits_few, can_copy) = (fits_too.clone(), u64::from(m.max(n)) * u64::from(k) < 1 << 31);
    let few_rows = if is_three { T::FEW_ROWS_F32 } else { T::FEW_ROWS };
    let can_fold = problem.b_folds && k.is_multiple_of(16 / size_of::<T>() as u32);
    let few_rows = few_rows.iter().filter(move |kernel| {
        [true, kernel.b_along_k] == along_k
            && (is_aligned || can_fold && !kernel.b_along_k)
            && k > 0
            && fits_few(kernel.meta, kernel.shared_bytes)
    });
    let few_rows = few_rows.map(move |kernel| Kernel::FewRows { kernel, folds: !is_aligned });
    let warpgroups = T::WARPGROUPS.iter().filter(move |kernel| {
        (is_aligned || can_copy)
            && !is_three
            && k > 0
            && kernel.units([m, n], MOST_SPLITS, batch) < 1 << 31
            && fits_too(kernel.meta, kernel.shared_bytes)
    });
    let can_transpose = is_f32 && m.max(n) < 1 << 20;
    let warpgroups = warpgroups.flat_map(move |kernel| {
        let wants_along_k = [kernel.a_along_k, kernel.b_along_k];
        let transposes = wants_along_k != along_k;
        let fits = !transposes || can_transpose && is_transposed(along_k, wants_along_k).is_some();
        let aligns = [(is_aligned, false), (can_copy && !(is_aligned && has_whole_lines), true)];
        let aligns = aligns
            .into_iter()
            .filter_map(move |(is_possible, aligns)| (fits && is_possible).then_some(aligns));
        aligns.map(move |aligns| Kernel::Warpgroups { kernel, aligns, transposes })
    });
    let has_three = is_three
        && k > 0
        && m.max(n) < 1 << 20
        && THREE_PRODUCTS.units([m, n], MOST_SPLITS, batch) < 1 << 31
        && profile.limits.runs(THREE_PRODUCTS.meta);
    let three = has_three.then_some(Kernel::ThreeProducts);
    // Asynchronous copies read whole chunks of 16 bytes.
    let in_row = [if problem.a_is_transposed { m } else { k }, if problem.b_is_transposed { k } else { n }];
    let has_chunks = in_row.iter().all(|extent| (*extent as usize * size_of::<T>()).is_multiple_of(16));
    let is_direct = is_aligned && has_chunks;
    let tiles = tiles.flat_map(move |kernel| {
        let aligns =
            [(is_direct || kernel.gathers, false), (can_copy && !is_direct && !kernel.gathers, true)];
        let aligns = aligns.into_iter().filter_map(|(is_possible, aligns)| is_possible.then_some(aligns));
        aligns.map(move |aligns| Kernel::Tiles { kernel, aligns })
    });
    tiles.chain(few_rows).chain(warpgroups).chain(three)
}

/// Whether each operand is transposed so that its terms are neighbours where the kernel wants that; the copies do not do the
/// opposite.
pub(super) fn is_transposed(along_k: [bool; 2], wanted: [bool; 2]) -> Option<[bool; 2]> {
    let can = (0..2).all(|i| wanted[i] || !along_k[i]);
    can.then(|| [0, 1].map(|i| wanted[i] && !along_k[i]))
}

impl<T: Element> fmt::Display for KernelChoice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.kernels().map(|kernel| kernel.name).collect();
        f.write_str(&names.join(" + "))?;
        if self.splits > 1 { write!(f, " ({} splits of k)", self.splits) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
