//! Which kernel a multiplication gets.
//!
//! # The model
//! Each kernel that can do the layout is estimated with every number of splits of k that leaves a split at least
//! [`LEAST_TERMS`] terms. A block takes, for each buffer of terms, the larger of the time to multiply them and the time to
//! fetch them; blocks on one multiprocessor take turns. So the time is that of the multiprocessor with the most blocks, but at
//! least that of moving all operands and results, at the rate that its blocks request them. A split adds the time to write
//! and read the sums, and a launch. The constants were fitted to the times of all kernels for `bf16` at the shapes of
//! `cargo bench matmul -- --sweep 24` on an H200. The estimate ranks kernels; it does not predict a time.
//!
//! Up to [`FEW_ROWS`] rows the time is that of reading B, which the model ranks badly. They get tiles of 16 rows and
//! [`FEW_ROWS_SPLITS`] splits, the fastest of the sweep at most of these shapes. There a second launch was also faster than
//! blocks of a cluster that add up their sums. Only the three products of `f32`, which take longer, get the cluster.

use std::fmt;

use cuda_std::launch::{KernelMeta, KernelOf};
use gpu_kernels::matmul::args::MatmulArgs;
use gpu_kernels::matmul::operation::{SPLIT, THREE_PRODUCTS, TileShape, WarpgroupShape};

use super::{MatmulError, Precision, Real};
use crate::softmax::DeviceProfile;

/// The fewest terms of a split.
const LEAST_TERMS: u32 = 256;
/// The most splits.
const MOST_SPLITS: u32 = 32;
/// The most rows for which the model does not choose.
const FEW_ROWS: u32 = 16;
/// Splits of k where the model does not choose, if there are terms for them.
const FEW_ROWS_SPLITS: u32 = 4;
/// Blocks for each multiprocessor where a cluster splits k.
const FEW_ROWS_BLOCKS: u32 = 3;
/// Columns of the tiles of few rows.
const FEW_ROWS_COLS: u32 = 64;
/// Multiply-adds of 16-bit numbers per multiprocessor and cycle; of TF32 half as many.
const MULTIPLY_ADDS: f64 = 350.0;
/// Multiply-adds of 16-bit numbers by `wgmma`.
const WARPGROUP_MULTIPLY_ADDS: f64 = 1610.0;
/// Bytes that a multiprocessor fetches per cycle, from L2 or memory, by asynchronous copies of its threads.
const FETCHED: f64 = 8.9;
/// The same where rows start at no multiple of 16 bytes.
const FETCHED_UNALIGNED: f64 = 5.9;
/// The same by tensor copies.
const WARPGROUP_FETCHED: f64 = 40.6;
/// Bytes of its share of the memory's bandwidth per cycle.
const FROM_MEMORY: f64 = 15.8;
/// Bytes per cycle that one block requests from memory, and blocks on a multiprocessor.
const REQUESTED: [f64; 2] = [3.5, 2.0];
/// The same by tensor copies, for tiles of at least [`WIDE`] columns.
const WARPGROUP_REQUESTED: f64 = 19.7;
/// Columns from which on a tile's stages hold enough bytes to hide the latency of memory.
const WIDE: f64 = 162.0;
/// Cycles before the first block, and after the last.
const BLOCK_CYCLES: f64 = 2100.0;
/// Cycles of a block before its first term and after its last.
const END_CYCLES: f64 = 1640.0;
/// Cycles of one launch more.
const LAUNCH_CYCLES: f64 = 10_400.0;
/// Bytes of sums that a multiprocessor writes and reads per cycle.
const SUMS: f64 = 10.3;

/// What a kernel is chosen for.
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
    /// Matrices.
    pub batch: u32,
    /// Whether the first operand is the transpose of what is stored.
    pub a_is_transposed: bool,
    /// Whether the second operand is the transpose of what is stored.
    pub b_is_transposed: bool,
    /// How `f32` is multiplied.
    pub precision: Precision,
    /// Whether every row of the stored operands starts at a multiple of 16 bytes.
    pub is_aligned: bool,
}

impl Problem {
    /// One multiplication of aligned row-major matrices: `[m, k]` by `[k, n]`.
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
        }
    }
}

/// The kernel for a multiplication on a device.
///
/// ```
/// use ferrowarp::bf16;
/// use ferrowarp::device::Device;
/// use ferrowarp::matmul::{KernelChoice, MatmulError, Problem};
/// use ferrowarp::softmax::DeviceProfile;
///
/// let profile = DeviceProfile::from(&Device::cpu());
/// let choice = KernelChoice::<bf16>::new(&profile, &Problem::new(64, 64, 64))?;
/// assert_eq!(choice.to_string(), "matmul_bf16_serial");
/// # Ok::<(), MatmulError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KernelChoice<T: 'static> {
    pub(super) kernel: Kernel<T>,
    pub(super) splits: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel<T: 'static> {
    Serial(&'static KernelOf<MatmulArgs<T>>),
    Tiles(&'static KernelOf<MatmulArgs<T>, TileShape>),
    Warpgroups(&'static KernelOf<MatmulArgs<T>, WarpgroupShape>),
    /// `f32` alone.
    ThreeProducts,
}

impl<T> Kernel<T> {
    fn is_cluster(&self) -> bool {
        matches!(self, Kernel::Tiles(kernel) if kernel.is_cluster)
    }

    /// Whether it is the one for few rows: three products take the cluster.
    fn is_for_few_rows(&self, problem: &Problem) -> bool {
        let is_three = size_of::<T>() == 4 && problem.precision == Precision::F32;
        matches!(self, Kernel::Tiles(kernel) if kernel.rows <= FEW_ROWS && kernel.is_cluster == is_three)
    }
}

impl<T: Real> KernelChoice<T> {
    /// The kernel with the smallest estimate.
    ///
    /// # Errors
    /// The device has no kernel for it.
    pub fn new(profile: &DeviceProfile, problem: &Problem) -> Result<Self, MatmulError> {
        if profile.is_cpu {
            return Ok(Self { kernel: Kernel::Serial(T::SERIAL), splits: 1 });
        }
        if problem.m <= FEW_ROWS
            && let Some(kernel) =
                of_tensor_cores::<T>(profile, problem).find(|kernel| kernel.is_for_few_rows(problem))
        {
            let most = (problem.k / LEAST_TERMS).max(1);
            let splits = if kernel.is_cluster() {
                let tiles = problem.n.div_ceil(FEW_ROWS_COLS).max(1);
                (FEW_ROWS_BLOCKS * profile.multiprocessors as u32)
                    .div_ceil(tiles)
                    .clamp(1, TileShape::MOST_IN_CLUSTER)
            } else {
                FEW_ROWS_SPLITS
            };
            return Ok(Self { kernel, splits: splits.min(most) });
        }
        let with_estimate = Self::with_splits(profile, problem).map(|choice| {
            let estimate = choice.estimate(profile, problem);
            (choice, estimate)
        });
        let best = with_estimate.min_by(|(_, a), (_, b)| a.total_cmp(b));
        let capability = profile.limits.capability;
        best.map(|(choice, _)| choice).ok_or(MatmulError::NoKernel { capability })
    }

    /// Every kernel of the device that can do it with every number of splits, and its estimate in cycles, the least first.
    #[doc(hidden)]
    pub fn ranked(profile: &DeviceProfile, problem: &Problem) -> Vec<(Self, f64)> {
        let choices = Self::with_splits(profile, problem);
        let mut ranked: Vec<_> = choices.map(|choice| (choice, choice.estimate(profile, problem))).collect();
        ranked.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        ranked
    }

    /// Every kernel of the device that can do it, with one split, and with several where there are terms for them.
    pub fn every(profile: &DeviceProfile, problem: &Problem) -> Vec<Self> {
        let serial = Some(T::SERIAL).filter(|kernel| profile.limits.runs(kernel.meta));
        let serial = serial.map(|kernel| Self { kernel: Kernel::Serial(kernel), splits: 1 });
        let all = of_tensor_cores::<T>(profile, problem).flat_map(|kernel| {
            let (terms, is_small) = match kernel {
                Kernel::Tiles(kernel) => (kernel.terms, kernel.rows == 64),
                Kernel::Warpgroups(kernel) => (kernel.terms, false),
                Kernel::ThreeProducts => (THREE_PRODUCTS.terms, false),
                Kernel::Serial(_) => (1, false),
            };
            // An empty split is a case of its own.
            let is_split = move |splits: &u32| *splits == 1 || terms < problem.k || is_small;
            let splits = [1, 3].into_iter().filter(is_split);
            splits.map(move |splits| Self { kernel, splits })
        });
        serial.into_iter().chain(all).collect()
    }

    fn with_splits(profile: &DeviceProfile, problem: &Problem) -> impl Iterator<Item = Self> {
        let most = (problem.k / LEAST_TERMS).clamp(1, MOST_SPLITS);
        let kernels = of_tensor_cores::<T>(profile, problem).filter(|kernel| !kernel.is_cluster());
        kernels.flat_map(move |kernel| (1..=most).map(move |splits| Self { kernel, splits }))
    }

    /// About how many cycles it takes.
    fn estimate(&self, profile: &DeviceProfile, problem: &Problem) -> f64 {
        let &Problem { m, n, k, batch, .. } = problem;
        let bytes = size_of::<T>() as f64;
        let of_warpgroups = |shape: &WarpgroupShape, products: f64| {
            let speed = WARPGROUP_MULTIPLY_ADDS * 2.0 / bytes / products;
            let [rows, cols, terms] = [WarpgroupShape::ROWS, shape.cols, shape.terms].map(f64::from);
            let requested = [WARPGROUP_REQUESTED * (cols / WIDE).min(1.0), 1.0];
            ([rows, cols, terms, speed, WARPGROUP_FETCHED], requested)
        };
        let mut before = 0.0;
        let multiprocessors = profile.multiprocessors as f64;
        let [m, n, k, batch] = [m, n, k, batch].map(f64::from);
        let ([rows, cols, terms, speed, fetched], [requested, resident]) = match self.kernel {
            Kernel::Serial(_) => return f64::INFINITY,
            Kernel::Tiles(kernel) => {
                let products = if kernel.is_three_products { 3.0 } else { 1.0 };
                let speed = MULTIPLY_ADDS * 2.0 / bytes / products;
                let [rows, cols, terms] = [kernel.rows, kernel.cols, kernel.terms].map(f64::from);
                let fetched = if problem.is_aligned { FETCHED } else { FETCHED_UNALIGNED };
                ([rows, cols, terms, speed, fetched], REQUESTED)
            }
            Kernel::Warpgroups(kernel) => of_warpgroups(kernel, 1.0),
            Kernel::ThreeProducts => {
                // Each operand is read, and twice as much is written, by a launch of its own.
                before = 2.0 * LAUNCH_CYCLES + 12.0 * (m + n) * k * batch / (FROM_MEMORY * multiprocessors);
                of_warpgroups(THREE_PRODUCTS, 3.0)
            }
        };
        let splits = f64::from(self.splits);
        let blocks = (m / rows).ceil() * (n / cols).ceil() * batch * splits;
        let steps = (k / terms / splits).ceil();
        let step = (rows * cols * terms / speed).max((rows + cols) * terms * bytes / fetched);
        let computed = (blocks / multiprocessors).ceil() * (steps * step + END_CYCLES);
        let rate = FROM_MEMORY.min(requested * resident.min(blocks / multiprocessors));
        let moved = (m * k + n * k + m * n) * batch * bytes / (rate * multiprocessors);
        let split = match self.splits {
            1 => 0.0,
            _ => LAUNCH_CYCLES + 8.0 * m * n * batch * splits / (SUMS * multiprocessors),
        };
        before + BLOCK_CYCLES + computed.max(moved) + split
    }

    /// What is launched, one after the other.
    pub fn kernels(&self) -> impl Iterator<Item = &'static KernelMeta> {
        let (first, then) = match self.kernel {
            Kernel::Serial(kernel) => (kernel.meta, None),
            Kernel::Tiles(kernel) => (kernel.meta, None),
            Kernel::Warpgroups(kernel) => (kernel.meta, None),
            Kernel::ThreeProducts => (SPLIT.meta, Some(THREE_PRODUCTS.meta)),
        };
        [first].into_iter().chain(then).chain(self.needs_sums().then_some(T::REDUCE.meta))
    }

    /// Whether a second launch adds up the sums of the splits.
    pub(super) fn needs_sums(&self) -> bool {
        self.splits > 1 && !self.kernel.is_cluster()
    }

    /// Blocks that share the sums of a tile.
    pub fn splits(&self) -> u32 {
        self.splits
    }
}

/// The kernels of tensor cores that the device has for the layout and the alignment.
fn of_tensor_cores<T: Real>(profile: &DeviceProfile, problem: &Problem) -> impl Iterator<Item = Kernel<T>> {
    let is_f32 = size_of::<T>() == 4;
    let is_three = is_f32 && problem.precision == Precision::F32;
    let along_k = [!problem.a_is_transposed, problem.b_is_transposed];
    let limits = profile.limits.clone();
    let fits = move |meta, shared_bytes| limits.runs(meta) && shared_bytes <= limits.max_dynamic_shared_bytes;
    let fits_too = fits.clone();
    let tiles = T::TILES.iter().chain(T::FEW_ROWS).filter(move |kernel| {
        [kernel.a_along_k, kernel.b_along_k] == along_k
            && kernel.is_three_products == is_three
            && fits(kernel.meta, kernel.shared_bytes)
    });
    // A tensor map has no dimension of 0, and its kernels count tiles in 32 bits.
    let &Problem { m, n, k, batch, is_aligned, .. } = problem;
    let warpgroups = T::WARPGROUPS.iter().filter(move |kernel| {
        [kernel.a_along_k, kernel.b_along_k] == along_k
            && is_aligned
            && !is_three
            && k > 0
            && kernel.units([m, n], MOST_SPLITS, batch) < 1 << 31
            && fits_too(kernel.meta, kernel.shared_bytes)
    });
    let has_three = is_three
        && k > 0
        && m.max(n) < 1 << 20
        && THREE_PRODUCTS.units([m, n], MOST_SPLITS, batch) < 1 << 31
        && profile.limits.runs(THREE_PRODUCTS.meta);
    let three = has_three.then_some(Kernel::ThreeProducts);
    tiles.map(Kernel::Tiles).chain(warpgroups.map(Kernel::Warpgroups)).chain(three)
}

impl<T: Real> fmt::Display for KernelChoice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.kernels().map(|kernel| kernel.name).collect();
        f.write_str(&names.join(" + "))?;
        if self.splits > 1 { write!(f, " ({} splits of k)", self.splits) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::half::bf16;
    use cuda_std::launch::Limits;

    use super::*;

    fn profile(capability: u32) -> DeviceProfile {
        let limits = Limits { capability, runs_cpu_only: false, ..Limits::default() };
        DeviceProfile { limits, multiprocessors: 132, is_cpu: false }
    }

    fn chosen(m: u32, n: u32, k: u32) -> String {
        let problem = Problem { b_is_transposed: true, ..Problem::new(m, n, k) };
        KernelChoice::<bf16>::new(&profile(80), &problem).unwrap().to_string()
    }

    #[test]
    fn shapes_get_tiles_that_fit_them() {
        assert_eq!(chosen(8192, 8192, 8192), "matmul_bf16_kk_128x128");
        assert!(chosen(16, 4096, 4096).starts_with("matmul_bf16_kk_16x64"), "{}", chosen(16, 4096, 4096));
        assert!(chosen(64, 64, 16384).contains("splits of k"), "{}", chosen(64, 64, 16384));
    }

    #[test]
    fn hopper_gets_warpgroups_where_rows_are_aligned() {
        let choice =
            |problem: &Problem| KernelChoice::<bf16>::new(&profile(90), problem).unwrap().to_string();
        let problem = Problem { b_is_transposed: true, ..Problem::new(8192, 8192, 8192) };
        assert_eq!(choice(&problem), "matmul_bf16_kk_128x256w");
        assert_eq!(choice(&Problem { is_aligned: false, ..problem }), "matmul_bf16_kk_128x128");
        assert!(
            !choice(&Problem { m: 8, ..problem }).contains('w'),
            "{}",
            choice(&Problem { m: 8, ..problem })
        );
    }

    #[test]
    fn precision_and_layout_select_the_kernel() {
        let problem = Problem { a_is_transposed: true, ..Problem::new(4096, 4096, 4096) };
        let name = |problem: &Problem| KernelChoice::<f32>::new(&profile(80), problem).unwrap().to_string();
        assert_eq!(name(&problem), "matmul_f32x3_mn_128x128");
        let on_hopper = KernelChoice::<f32>::new(&profile(90), &problem).unwrap().to_string();
        assert_eq!(on_hopper, "matmul_split_f32 + matmul_f32x3_128x128w");
        let problem = Problem { precision: Precision::Tf32, ..problem };
        assert_eq!(name(&problem), "matmul_f32_mn_128x128");
        let problem = Problem { a_is_transposed: false, b_is_transposed: true, ..problem };
        let on_hopper = KernelChoice::<f32>::new(&profile(90), &problem).unwrap().to_string();
        assert_eq!(on_hopper, "matmul_f32_kk_128x256w");
    }

    #[test]
    fn a_gpu_without_tensor_cores_is_refused() {
        let error = KernelChoice::<f32>::new(&profile(75), &Problem::new(8, 8, 8)).unwrap_err().to_string();
        assert!(error.contains("compute capability 7.5") && error.contains("8.0 or later"), "{error}");
    }
}
