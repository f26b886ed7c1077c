//! Chooses the kernel for a multiplication.
//!
//! [The model](super::estimate) ranks every kernel that can do the layout, with the copies that it needs or that may pay, and
//! with every number of splits that leaves each split at least [`LEAST_TERMS`] terms.

use std::fmt;
use std::ops::RangeInclusive;

use cuda_std::launch::{KernelMeta, KernelOf};
use ferrowarp_device::DeviceProfile;
use ferrowarp_device::error::Error;
use matmul_kernels::args::MatmulArgs;
use matmul_kernels::operation::align::AlignArgs;
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
    /// Whether every row of the stored operands starts at a multiple of 16 bytes: of A and of B.
    pub is_aligned: [bool; 2],
    /// Whether every stored matrix of the second operand starts at a multiple of 16 bytes, and eight of its rows fit a tensor map.
    pub b_folds: bool,
    /// Whether the rows are multiples of 128 bytes (the lines of L2) apart: of A and of B.
    pub has_whole_lines: [bool; 2],
    /// Whether every row of the output starts at a multiple of four elements.
    pub out_is_aligned: bool,
    /// Whether a residual is added.
    pub has_residual: bool,
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
            is_aligned: [true; 2],
            b_folds: true,
            has_whole_lines: [true; 2],
            out_is_aligned: true,
            has_residual: false,
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
    /// Whether A and B are copied to aligned rows first.
    pub(super) aligns: [bool; 2],
    pub(super) splits: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel<T: 'static> {
    Serial(&'static KernelOf<MatmulArgs<T>>),
    Tiles(&'static KernelOf<MatmulArgs<T>, TileShape>),
    FewRows {
        kernel: &'static KernelOf<MatmulArgs<T>, FewRowsShape>,
        /// Whether groups of rows of B are folded to aligned rows, after a copy of A.
        folds: bool,
    },
    Warpgroups {
        kernel: &'static KernelOf<MatmulArgs<T>, WarpgroupShape>,
        /// Whether operands that the kernel needs as their transposes are copied first.
        transposes: bool,
    },
    /// Only for `f32`.
    ThreeProducts,
}

impl<T> Kernel<T> {
    /// Whether the blocks of a cluster split k, and add up their sums.
    fn has_clusters(&self) -> bool {
        matches!(self, Kernel::FewRows { .. })
    }
}

impl<T: Element> KernelChoice<T> {
    fn new_whole(kernel: Kernel<T>, aligns: [bool; 2]) -> Self {
        Self { kernel, aligns, splits: 1 }
    }

    /// Chooses the kernel with the smallest estimate.
    ///
    /// # Errors
    /// The device has no kernel for the problem.
    pub fn new(profile: &DeviceProfile, problem: &Problem) -> Result<Self, Error> {
        if profile.is_cpu {
            return Ok(Self::new_whole(Kernel::Serial(T::SERIAL), [false; 2]));
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

    /// Returns every kernel of the device that can do it, with every number of splits and its estimate in cycles, the
    /// smallest first.
    #[doc(hidden)]
    pub fn ranked(profile: &DeviceProfile, problem: &Problem) -> Vec<(Self, f64)> {
        let choices = Self::with_splits(profile, problem);
        let mut ranked: Vec<_> = choices.map(|choice| (choice, choice.estimate(profile, problem))).collect();
        ranked.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        ranked
    }

    /// Returns every kernel of the device that can do it, with one split, and with three if there are terms for them.
    pub fn every(profile: &DeviceProfile, problem: &Problem) -> Vec<Self> {
        let serial = Some(T::SERIAL).filter(|kernel| profile.limits.runs(kernel.meta));
        let serial = serial.map(|kernel| Self::new_whole(Kernel::Serial(kernel), [false; 2]));
        let all = of_tensor_cores::<T>(profile, problem).flat_map(|choice| {
            let (terms, is_small) = match choice.kernel {
                Kernel::Tiles(kernel) => (kernel.terms, kernel.rows == 64 && kernel.cols == 64),
                Kernel::FewRows { kernel, .. } => (kernel.terms, kernel.rows == 32),
                Kernel::Warpgroups { kernel, .. } => (kernel.terms, kernel.rows == 64 && kernel.cols == 64),
                Kernel::ThreeProducts => (THREE_PRODUCTS.terms, false),
                Kernel::Serial(_) => (1, false),
            };
            // Copies that are not needed are tried with one tile only, and the splits of kernels with copies run the same code.
            let is_copied = matches!(choice.kernel, Kernel::Warpgroups { transposes: true, .. });
            let is_needed = !is_copied && (0..2).all(|i| !choice.aligns[i] || !problem.is_aligned[i]);
            let is_plain = !is_copied && choice.aligns == [false; 2];
            let possible = choice.possible_splits(problem);
            let splits = [*possible.start(), 3.max(*possible.start())];
            // Empty splits are covered with the small kernels only.
            let is_split = move |splits: &u32| *splits == 1 || is_plain && (terms < problem.k || is_small);
            let count = if splits[0] == splits[1] { 1 } else { 2 };
            let splits = splits.into_iter().take(count).filter(is_split);
            splits.filter(move |_| is_needed || is_small).map(move |splits| Self { splits, ..choice })
        });
        serial.into_iter().chain(all).collect()
    }

    /// The numbers of splits that leave enough terms to each: with folded rows, one for each row of a group.
    fn possible_splits(&self, problem: &Problem) -> RangeInclusive<u32> {
        let group = 16 / size_of::<T>() as u32;
        match self.kernel {
            Kernel::FewRows { folds: true, .. } => group..=group,
            Kernel::FewRows { .. } => {
                1..=(problem.k / LEAST_TERMS_IN_CLUSTER).clamp(1, FewRowsShape::MOST_IN_CLUSTER)
            }
            _ => 1..=(problem.k / LEAST_TERMS).clamp(1, MOST_SPLITS),
        }
    }

    fn with_splits(profile: &DeviceProfile, problem: &Problem) -> impl Iterator<Item = Self> {
        of_tensor_cores::<T>(profile, problem).flat_map(move |choice| {
            choice.possible_splits(problem).map(move |splits| Self { splits, ..choice })
        })
    }

    /// The kernels that are launched, in order.
    pub fn kernels(&self) -> impl Iterator<Item = &'static KernelMeta> {
        let of_bytes =
            |kernels: &'static [KernelOf<AlignArgs>]| kernels[usize::from(size_of::<T>() == 4)].meta;
        let (before, kernel) = match self.kernel {
            Kernel::Serial(kernel) => (None, kernel.meta),
            Kernel::Tiles(kernel) => (None, kernel.meta),
            Kernel::FewRows { kernel, folds } => (folds.then(|| of_bytes(FOLD)), kernel.meta),
            Kernel::Warpgroups { kernel, transposes } => (transposes.then_some(TRANSPOSE.meta), kernel.meta),
            Kernel::ThreeProducts => (Some(SPLIT.meta), THREE_PRODUCTS.meta),
        };
        let align = (self.aligns != [false; 2]).then(|| of_bytes(ALIGN));
        let reduce = self.needs_sums().then_some(T::REDUCE.meta);
        align.into_iter().chain(before).chain([kernel]).chain(reduce)
    }

    /// Whether a second launch adds up the sums of the splits.
    pub(super) fn needs_sums(&self) -> bool {
        self.splits > 1 && !self.kernel.has_clusters()
    }

    /// The number of blocks that share the sums of a tile.
    pub fn splits(&self) -> u32 {
        self.splits
    }
}

/// The device's tensor-core kernels for the layout and the alignment, with one split.
fn of_tensor_cores<T: Element>(
    profile: &DeviceProfile,
    problem: &Problem,
) -> impl Iterator<Item = KernelChoice<T>> {
    let is_f32 = size_of::<T>() == 4;
    let is_three = is_f32 && problem.precision == Precision::F32;
    let along_k = [!problem.a_is_transposed, problem.b_is_transposed];
    let limits = profile.limits.clone();
    let fits = move |meta, shared_bytes| limits.runs(meta) && shared_bytes <= limits.max_dynamic_shared_bytes;
    let (fits_few, fits_too) = (fits.clone(), fits.clone());
    let &Problem { m, n, k, batch, is_aligned, has_whole_lines, .. } = problem;
    // The copying kernels count chunks in 32 bits.
    let can_copy = u64::from(m.max(n)) * u64::from(k) < 1 << 31;
    // Asynchronous copies read whole chunks of 16 bytes.
    let in_row = [if along_k[0] { k } else { m }, if along_k[1] { k } else { n }];
    let has_chunks = in_row.map(|extent| (extent as usize * size_of::<T>()).is_multiple_of(16));
    let needs_chunks = [0, 1].map(|i| !(is_aligned[i] && has_chunks[i]));
    let tiles = T::TILES.iter().filter_map(move |kernel| {
        let aligns = needs_chunks.map(|needs_chunks| needs_chunks && !kernel.gathers);
        let is_possible = [kernel.a_along_k, kernel.b_along_k] == along_k
            && kernel.is_three_products == is_three
            && (can_copy || aligns == [false; 2])
            && fits(kernel.meta, kernel.shared_bytes);
        is_possible.then(|| KernelChoice::new_whole(Kernel::Tiles(kernel), aligns))
    });
    // A tensor map has no dimension of 0.
    let can_fold = problem.b_folds && k.is_multiple_of(16 / size_of::<T>() as u32);
    let few_rows = if is_three { T::FEW_ROWS_F32 } else { T::FEW_ROWS };
    let few_rows = few_rows.iter().filter_map(move |kernel| {
        let folds = !is_aligned[1];
        let is_possible = [true, kernel.b_along_k] == along_k
            && (!folds || can_fold && !kernel.b_along_k)
            && (can_copy || is_aligned[0])
            && k > 0
            && fits_few(kernel.meta, kernel.shared_bytes);
        let aligns = [!is_aligned[0] && !folds, false];
        is_possible.then(|| KernelChoice::new_whole(Kernel::FewRows { kernel, folds }, aligns))
    });
    // Its kernels count tiles in 32 bits.
    let warpgroups = T::WARPGROUPS.iter().filter(move |kernel| {
        !is_three
            && k > 0
            && kernel.units([m, n], MOST_SPLITS, batch) < 1 << 31
            && fits_too(kernel.meta, kernel.shared_bytes)
    });
    let can_transpose = is_f32 && m.max(n) < 1 << 20;
    let warpgroups = warpgroups.flat_map(move |kernel| {
        let wanted = [kernel.a_along_k, kernel.b_along_k];
        let transposed = is_transposed(along_k, wanted).filter(|it| *it == [false; 2] || can_transpose);
        // Rows that are not whole lines apart are copied or not.
        let all = [[false, false], [false, true], [true, false], [true, true]];
        let aligns = all.into_iter().filter(move |aligns| {
            transposed.is_some_and(|transposed| {
                (0..2).all(|i| match aligns[i] {
                    true => can_copy && !transposed[i] && !(is_aligned[i] && has_whole_lines[i]),
                    false => transposed[i] || is_aligned[i],
                })
            })
        });
        let kernel = Kernel::Warpgroups { kernel, transposes: wanted != along_k };
        aligns.map(move |aligns| KernelChoice::new_whole(kernel, aligns))
    });
    let has_three = is_three
        && k > 0
        && m.max(n) < 1 << 20
        && THREE_PRODUCTS.units([m, n], MOST_SPLITS, batch) < 1 << 31
        && profile.limits.runs(THREE_PRODUCTS.meta);
    let three = has_three.then(|| KernelChoice::new_whole(Kernel::ThreeProducts, [false; 2]));
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
        let copied = match self.aligns {
            [false, false] => None,
            [true, false] => Some("A copied".to_owned()),
            [false, true] => Some("B copied".to_owned()),
            [true, true] => Some("A and B copied".to_owned()),
        };
        let splits = (self.splits > 1).then(|| format!("{} splits of k", self.splits));
        let notes: Vec<_> = copied.into_iter().chain(splits).collect();
        if notes.is_empty() { Ok(()) } else { write!(f, " ({})", notes.join(", ")) }
    }
}

#[cfg(test)]
mod tests;
