//! Chooses the kernel for an attention.
//!
//! # The model
//! Times are in keys. One key is the time in which a multiprocessor reads one key and its value for one tile.
//!
//! - A `wgmma` kernel runs the blocks of the busiest multiprocessor one after the other, each with all keys. Computing 128
//!   queries with a key takes about as long as reading it, and a block overlaps the two partly: it takes [`WARPGROUP_KEYS`].
//!   With three consumers it overlaps more, but its larger tiles waste more work at masks and at the last queries.
//! - An `mma.sync` kernel for many queries has two blocks on a multiprocessor, which share its tensor cores. It takes
//!   [`ROW_KEYS`] for 128 queries with a key: larger heads leave no registers for the queries.
//! - A kernel that splits the keys runs as many blocks at once as fit a multiprocessor's registers and shared memory. A block
//!   takes as long as its warps wait for their keys ([`WARP_KEYS`]), and a multiprocessor reads at most [`SHARES`] times its
//!   share of the memory's rate. The second launch and each partial result that it reads take time too.
//!
//! The estimate ranks kernels and numbers of splits; it does not predict a time.

use std::fmt;

use attention_kernels::args::{AttentionArgs, NO_WINDOW};
use attention_kernels::operation::{AttentionKernels, RowShape, SplitShape, WarpgroupShape};
use cuda_std::launch::{KernelMeta, KernelOf};
use ferrowarp_device::DeviceProfile;
use ferrowarp_device::error::{Error, Kind};

use super::types::{Element16, NAME};
use crate::operation::no_kernel;

/// The largest head size.
const MOST: u32 = attention_kernels::operation::serial::MOST as u32;
const _: () = assert!(MOST == 256);
/// The time of a key for a warp alone, in keys, and what the latency adds to it for a head size of 1.
const WARP_KEYS: [f64; 2] = [1.33, 186.0];
/// The most that a multiprocessor reads while others are idle, in shares: 43 GB/s on an H200, whose share is 34.
const SHARES: f64 = 1.27;
/// The time of a key for 128 queries with `wgmma`, in keys: with two consumers, and with three.
const WARPGROUP_KEYS: [f64; 2] = [1.25, 0.97];
/// The time to start and end a tile with `wgmma`, in keys.
const WARPGROUP_START: [f64; 2] = [64.0, 150.0];
/// The time of a key for 128 queries with `mma.sync`, in keys: up to head size 64, and for larger heads.
const ROW_KEYS: [f64; 2] = [1.8, 2.2];
/// What a causal mask adds to a tile, in keys: with two consumers, and with three, whose larger tiles waste more.
const WARPGROUP_MASK: [f64; 2] = [0.0, 150.0];
/// The time to start and end a block, in keys: of an `mma.sync` kernel for many queries, and of one that splits the keys, whose
/// warps add up their results.
const START_KEYS: [f64; 2] = [64.0, 256.0];
/// The time of the second launch, in keys.
const COMBINE_KEYS: f64 = 192.0;
/// The second launch's time per additional partial result, in keys.
const KEYS_A_SPLIT: f64 = 2.0;
/// Bytes of shared memory that the system reserves per block.
const RESERVED_BYTES: u32 = 1024;

/// The problem that a kernel is chosen for.
///
/// ```
/// use ferrowarp::attention::Problem;
///
/// let one_query = Problem { queries: 1, heads: 32, key_heads: 8, ..Problem::new(2, 8192, 128) };
/// assert_eq!((one_query.batch, one_query.keys), (2, 8192));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Queries of each head.
    pub queries: u32,
    /// Keys of each head.
    pub keys: u32,
    /// Heads of Q.
    pub heads: u32,
    /// Heads of K and V.
    pub key_heads: u32,
    /// Entries of the batch.
    pub batch: u32,
    /// Elements of a row.
    pub head_size: u32,
    /// Whether every row of the tensors starts at a multiple of 16 bytes, and no stride is 0.
    pub is_aligned: bool,
    /// Whether K and V are in pages, or each batch entry has its own length.
    pub is_ragged: bool,
    /// Whether K and V are in pages.
    pub is_paged: bool,
    /// Whether a query sees no keys after its own position.
    pub is_causal: bool,
    /// The most keys that a query sees with a sliding window; 2^30 without one.
    pub window: u32,
}

impl Problem {
    /// One head of aligned tensors, with `length` queries and `length` keys, and no mask.
    pub const fn new(batch: u32, length: u32, head_size: u32) -> Self {
        Self {
            queries: length,
            keys: length,
            heads: 1,
            key_heads: 1,
            batch,
            head_size,
            is_aligned: true,
            is_ragged: false,
            is_paged: false,
            is_causal: false,
            window: NO_WINDOW as u32,
        }
    }

    /// The most keys that a tile of `queries` queries sees.
    fn seen_keys(&self, queries: u32) -> u32 {
        self.keys.min(self.window.saturating_add(queries))
    }
}

/// The kernel chosen for an attention on a device.
///
/// ```
/// use ferrowarp::attention::{KernelChoice, Problem};
/// use ferrowarp::device::Device;
/// use ferrowarp::{DeviceProfile, Error, bf16};
///
/// let profile = DeviceProfile::from(&Device::cpu());
/// let choice = KernelChoice::<bf16>::new(&profile, &Problem::new(1, 100, 96))?;
/// assert_eq!(choice.to_string(), "attention_bf16_serial");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KernelChoice<T: 'static> {
    pub(super) kernel: Kernel<T>,
    /// Parts into which the keys are split.
    pub(super) splits: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel<T: 'static> {
    Serial(&'static KernelOf<AttentionArgs<T>>),
    Rows(&'static KernelOf<AttentionArgs<T>, RowShape>),
    Splits(&'static KernelOf<AttentionArgs<T>, SplitShape>),
    Warpgroups(&'static KernelOf<AttentionArgs<T>, WarpgroupShape>),
}

impl<T: Element16> KernelChoice<T> {
    /// Chooses the kernel with the smallest estimate.
    ///
    /// # Errors
    /// The device has no kernel for the problem, or there is none for the head size.
    pub fn new(profile: &DeviceProfile, problem: &Problem) -> Result<Self, Error> {
        if !(1..=MOST).contains(&problem.head_size) {
            let what = format!("there is no kernel for a head size of {}", problem.head_size);
            let needs = "the head size must be 1 to 256";
            return Err(Error::from(Kind::Unsupported { what, needs }).of(NAME, None));
        }
        if profile.is_cpu {
            return Ok(Self { kernel: Kernel::Serial(<T as AttentionKernels>::SERIAL), splits: 1 });
        }
        let multiprocessors = profile.multiprocessors.max(1) as u64;
        let warpgroups = of_warpgroups::<T>(profile, problem).map(|kernel| {
            let blocks = kernel.tiles(problem.queries, problem.heads, problem.batch);
            let three = usize::from(kernel.queries > 128);
            let of_key = WARPGROUP_KEYS[three] * f64::from(kernel.queries) / 128.0;
            let mask = if problem.is_causal { WARPGROUP_MASK[three] } else { 0.0 };
            let each = f64::from(problem.seen_keys(kernel.queries)) * of_key + WARPGROUP_START[three] + mask;
            let choice = Self { kernel: Kernel::Warpgroups(kernel), splits: 1 };
            (choice, blocks.div_ceil(multiprocessors) as f64 * each)
        });
        let rows = of_rows::<T>(profile, problem).map(|kernel| {
            let Problem { queries, heads, key_heads, batch, .. } = *problem;
            let blocks = kernel.tiles(queries, heads, key_heads, batch);
            let of_key = ROW_KEYS[usize::from(kernel.head_size > 64)] * f64::from(kernel.rows) / 128.0;
            let seen = problem.seen_keys(kernel.rows / (heads / key_heads.max(1)).max(1));
            let choice = Self { kernel: Kernel::Rows(kernel), splits: 1 };
            (choice, blocks.div_ceil(multiprocessors) as f64 * (f64::from(seen) * of_key + START_KEYS[0]))
        });
        let splits = of_splits::<T>(profile, problem).into_iter().flat_map(|kernel| {
            let most = problem
                .seen_keys(problem.queries)
                .div_ceil(SplitShape::KEYS)
                .clamp(1, SplitShape::MOST_SPLITS);
            (1..=most).map(move |splits| {
                let choice = Self { kernel: Kernel::Splits(kernel), splits };
                (choice, estimate(kernel, profile, problem, splits))
            })
        });
        let best = warpgroups.chain(rows).chain(splits).min_by(|(_, a), (_, b)| a.total_cmp(b));
        match (best, profile.with_absent_kernels()) {
            (Some((choice, _)), _) => Ok(choice),
            (None, Some(profile)) => Self::new(&profile, problem),
            (None, None) => {
                let needs = "the kernels need 8.0 or later, so use a newer GPU or `Device::cpu()`";
                Err(no_kernel(NAME, profile.limits.capability, needs))
            }
        }
    }

    /// Returns every kernel of the device that can do it; kernels that split the keys appear with one part and with three.
    pub fn every(profile: &DeviceProfile, problem: &Problem) -> Vec<Self> {
        let serial = Some(<T as AttentionKernels>::SERIAL).filter(|kernel| profile.limits.runs(kernel.meta));
        let splits = of_splits::<T>(profile, problem).map(Kernel::Splits);
        let once = serial.map(Kernel::Serial).into_iter().chain(splits);
        let once = once.chain(of_rows::<T>(profile, problem).map(Kernel::Rows));
        let once = once.chain(of_warpgroups::<T>(profile, problem).map(Kernel::Warpgroups));
        once.map(|kernel| (kernel, 1))
            .chain(splits.map(|kernel| (kernel, 3)))
            .map(|(kernel, splits)| Self { kernel, splits })
            .collect()
    }

    /// Returns the kernels that are launched, in order.
    pub fn kernels(&self) -> impl Iterator<Item = &'static KernelMeta> + use<T> {
        let first = match self.kernel {
            Kernel::Serial(kernel) => kernel.meta,
            Kernel::Rows(kernel) => kernel.meta,
            Kernel::Splits(kernel) => kernel.meta,
            Kernel::Warpgroups(kernel) => kernel.meta,
        };
        std::iter::once(first).chain((self.splits > 1).then_some(<T as AttentionKernels>::COMBINE.meta))
    }
}

/// The `wgmma` kernels that the device has for the head size: those with the fewest zeros.
fn of_warpgroups<T: Element16>(
    profile: &DeviceProfile,
    problem: &Problem,
) -> impl Iterator<Item = &'static KernelOf<AttentionArgs<T>, WarpgroupShape>> + use<T> {
    let limits = &profile.limits;
    let takes_it = problem.is_aligned && problem.head_size.is_multiple_of(8);
    let fits = |kernel: &&KernelOf<_, WarpgroupShape>| {
        takes_it
            && kernel.head_size >= problem.head_size
            && kernel.is_ragged == problem.is_ragged
            && limits.runs(kernel.meta)
            && kernel.shared_bytes <= limits.max_dynamic_shared_bytes
    };
    let mut kernels: Vec<_> = <T as AttentionKernels>::WARPGROUPS.iter().filter(fits).collect();
    let smallest = kernels.iter().map(|kernel| kernel.head_size).min();
    kernels.retain(|kernel| Some(kernel.head_size) == smallest);
    kernels.into_iter()
}

/// The kernel for many queries by `mma.sync` and the head size, if the device has it.
fn of_rows<T: Element16>(
    profile: &DeviceProfile,
    problem: &Problem,
) -> Option<&'static KernelOf<AttentionArgs<T>, RowShape>> {
    let limits = &profile.limits;
    let fits = |kernel: &&'static KernelOf<_, RowShape>| {
        kernel.head_size >= problem.head_size
            && kernel.is_paged == problem.is_paged
            && limits.runs(kernel.meta)
            && kernel.shared_bytes <= limits.max_dynamic_shared_bytes
    };
    let takes_it = problem.is_aligned && problem.head_size.is_multiple_of(8);
    let kernels = <T as AttentionKernels>::ROWS.iter().filter(|_| takes_it);
    kernels.filter(fits).min_by_key(|kernel| kernel.head_size)
}

/// The kernel for the head size that splits the keys, if the device has it.
fn of_splits<T: Element16>(
    profile: &DeviceProfile,
    problem: &Problem,
) -> Option<&'static KernelOf<AttentionArgs<T>, SplitShape>> {
    let limits = &profile.limits;
    let fits = |kernel: &&'static KernelOf<_, SplitShape>| {
        kernel.head_size >= problem.head_size
            && limits.runs(kernel.meta)
            && kernel.shared_bytes <= limits.max_dynamic_shared_bytes
    };
    <T as AttentionKernels>::SPLITS.iter().filter(fits).min_by_key(|kernel| kernel.head_size)
}

/// Estimates the time of a kernel with `splits` splits, in keys.
fn estimate<T>(
    kernel: &KernelOf<AttentionArgs<T>, SplitShape>,
    profile: &DeviceProfile,
    problem: &Problem,
    splits: u32,
) -> f64 {
    let &Problem { queries, heads, key_heads, batch, .. } = problem;
    let blocks = SplitShape::tiles(queries, heads, key_heads, batch).saturating_mul(splits.into());
    let multiprocessors = profile.multiprocessors.max(1) as u64;
    let all = blocks as f64 / multiprocessors as f64;
    let blocks = blocks.div_ceil(multiprocessors);
    let shared = profile.limits.max_dynamic_shared_bytes.saturating_add(RESERVED_BYTES);
    let resident = shared / (kernel.shared_bytes + RESERVED_BYTES);
    let resident = u64::from(resident.min(kernel.meta.min_blocks).max(1));
    let least = (WARP_KEYS[0] + WARP_KEYS[1] / f64::from(kernel.head_size)) / f64::from(kernel.threads / 32);
    let of_wave = |blocks: u64| if blocks == 0 { 0.0 } else { least.max(blocks as f64 / SHARES) };
    let rounds = (blocks / resident) as f64 * of_wave(resident) + of_wave(blocks % resident);
    let tiles = problem.seen_keys(queries.min(SplitShape::ROWS)).div_ceil(SplitShape::KEYS).div_ceil(splits);
    let keys = f64::from(tiles) * f64::from(SplitShape::KEYS);
    let combine = if splits > 1 { COMBINE_KEYS + KEYS_A_SPLIT * f64::from(splits) } else { 0.0 };
    rounds.max(all) * (keys + START_KEYS[1]) + combine
}

impl<T: Element16> fmt::Display for KernelChoice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.kernels().map(|kernel| kernel.name).collect();
        f.write_str(&names.join(" + "))?;
        if self.splits > 1 { write!(f, " ({} splits of the keys)", self.splits) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::half::bf16;
    use cuda_std::launch::Limits;

    use super::*;

    fn chosen(capability: u32, problem: Problem) -> Result<String, String> {
        let limits = Limits { capability, runs_cpu_only: false, ..Limits::default() };
        let profile = DeviceProfile { limits, multiprocessors: 132, is_cpu: false };
        let choice = KernelChoice::<bf16>::new(&profile, &problem);
        choice.map(|choice| choice.to_string()).map_err(|error| error.to_string())
    }

    const PROBLEM: Problem = Problem { heads: 16, key_heads: 16, ..Problem::new(2, 4096, 128) };

    #[test]
    fn many_queries_get_warpgroups_where_there_are_any() {
        assert_eq!(chosen(90, PROBLEM).unwrap(), "attention_bf16_128_2w");
        let small = Problem { head_size: 64, ..PROBLEM };
        assert_eq!(chosen(90, small).unwrap(), "attention_bf16_64_3w");
        assert_eq!(chosen(90, Problem { is_causal: true, ..small }).unwrap(), "attention_bf16_64_3w");
        let short = Problem { queries: 1024, keys: 1024, batch: 32, ..small };
        assert_eq!(chosen(90, short).unwrap(), "attention_bf16_64_3w");
        let shorter = Problem { queries: 256, keys: 256, ..short };
        assert_eq!(chosen(90, Problem { is_causal: true, ..shorter }).unwrap(), "attention_bf16_64_2w");
        assert_eq!(chosen(80, PROBLEM).unwrap(), "attention_bf16_128_rows");
        assert_eq!(chosen(120, small).unwrap(), "attention_bf16_64_rows");
        let of = |problem| chosen(90, problem).unwrap();
        for (head_size, kernel) in
            [(8, "64_3w"), (72, "80_2w"), (88, "96_2w"), (112, "112_2w"), (136, "192_2w"), (200, "256_2w")]
        {
            let name = format!("attention_bf16_{kernel}");
            assert_eq!(of(Problem { head_size, ..PROBLEM }), name);
        }
        assert_eq!(of(Problem { head_size: 100, ..PROBLEM }), "attention_bf16_128_split");
        assert_eq!(of(Problem { is_aligned: false, ..PROBLEM }), "attention_bf16_128_split");
        for is_paged in [false, true] {
            let ragged = Problem { is_ragged: true, is_paged, head_size: 80, ..PROBLEM };
            assert_eq!(of(ragged), "attention_bf16_128_ragged");
        }
        let paged = Problem { is_ragged: true, is_paged: true, ..PROBLEM };
        assert_eq!(chosen(80, paged).unwrap(), "attention_bf16_128_paged_rows");
    }

    #[test]
    fn few_queries_split_long_keys_into_what_fits_the_device() {
        let decode = Problem { queries: 1, heads: 32, key_heads: 8, batch: 1, ..PROBLEM };
        let splits = |problem: Problem| {
            let choice = chosen(90, problem).unwrap();
            let words = choice.strip_prefix("attention_bf16_128_split + attention_bf16_combine (").unwrap();
            words.split(' ').next().unwrap().parse::<u32>().unwrap()
        };
        let most = splits(Problem { keys: 131_072, ..decode });
        assert!((12..=2 * 132 / 8).contains(&most), "{most}");
        assert!(splits(Problem { keys: 4096, ..decode }) <= most);
        // Without splits there are enough blocks.
        for problem in [Problem { batch: 512, ..decode }, Problem { key_heads: 32, batch: 8, ..decode }] {
            assert_eq!(chosen(90, problem).unwrap(), "attention_bf16_128_split");
        }
    }

    #[test]
    fn what_no_kernel_does_is_refused() {
        let error = chosen(90, Problem { head_size: 257, ..PROBLEM }).unwrap_err();
        assert!(error.contains("head size of 257") && error.contains("1 to 256"), "{error}");
        let error = chosen(75, PROBLEM).unwrap_err();
        assert!(error.contains("compute capability 7.5") && error.contains("need 8.0 or later"), "{error}");
    }
}
