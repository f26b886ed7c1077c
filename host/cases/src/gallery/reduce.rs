//! The sum of an array.

mod cpu;

use cuda_std::launch::{LaunchError, RawBuffer};
use gpu_kernels::gallery::reduce::{Arguments, RUNGS, Reduction, reduce_clear};

use super::prelude::*;

/// Threads per block.
const BLOCK: usize = 256;

/// Maximum atomic additions to one address, which are serialised.
const MOST_ATOMIC: usize = 1 << 24;

/// The summands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Summands {
    /// Integers from -7 to 7, whose sum is exact in any order.
    Whole,
    /// The same, with one that is larger than all others together.
    Outlier,
    /// Numbers between -1 and 1.
    Real,
    /// The same, with these two in the middle.
    With(f32, f32),
}

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    use Summands::{Outlier, Real, Whole, With};
    let lens: &[usize] = match scale {
        Scale::Tiny => &[33],
        Scale::Edges => &[1, 31, 257, 511, 513, 1024, 4099],
        Scale::Count => &[1 << 14],
        Scale::Laptop => &[1 << 12, 1 << 15, 1 << 18],
        Scale::Gpu => {
            &[1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 25, 1 << 26, 1 << 27, 1 << 28]
        }
    };
    let trial = |rung, len, summands| {
        // Few blocks for a small array, so that each has several elements to add.
        let most = match scale {
            Scale::Tiny => 2,
            Scale::Edges => 3,
            Scale::Count => 4,
            Scale::Laptop | Scale::Gpu => u32::MAX,
        };
        trial(rung, len, summands, most)
    };
    let of_cpu: Vec<usize> = lens.iter().copied().filter(|&len| len <= MOST_ATOMIC).collect();
    let mut trials = cpu::trials(&of_cpu);
    for rung in RUNGS {
        let is_atomic = matches!(rung.kernel.facts, Reduction::Cleared(_));
        let most = if is_atomic { MOST_ATOMIC } else { usize::MAX };
        trials.extend(lens.iter().filter(|&&len| len <= most).map(|&len| trial(rung, len, Whole)));
        let is_resident = matches!(rung.kernel.facts, Reduction::Resident(_));
        // Two blocks, so that one of them is the last; many more to cover all loops.
        trials.extend((is_resident && scale == Scale::Tiny).then(|| trial(rung, 1030, Whole)));
        trials.extend((is_resident && scale == Scale::Edges).then(|| trial(rung, 13_003, Whole)));
        if scale != Scale::Edges {
            continue;
        }
        let infinite = f32::INFINITY;
        let special = [Outlier, With(infinite, 1.0), With(infinite, -infinite), With(1.0, f32::NAN)];
        trials.extend(special.map(|summands| trial(rung, 1030, summands)));
        // Three launches, once for all rungs that need more than one.
        trials.extend((rung.name == "sequential").then(|| trial(rung, 66_003, Whole)));
        if !is_atomic {
            trials.extend([33, 4099].map(|len| trial(rung, len, Real)));
        }
    }
    trials
}

impl Summands {
    fn numbers(self, len: usize) -> Vec<f32> {
        let whole = |x: f32| (7.5 * x).trunc();
        match self {
            Summands::Whole => numbers_as(len, 3, whole),
            Summands::Outlier => {
                let mut numbers = numbers_as(len, 3, whole);
                // 2^23: the floats from it to twice it are exactly the integers.
                numbers[len / 2] = 8_388_608.0;
                numbers
            }
            Summands::Real => numbers(len, 3),
            Summands::With(a, b) => {
                let mut numbers = numbers(len, 3);
                (numbers[len / 3], numbers[len / 2]) = (a, b);
                numbers
            }
        }
    }

    /// The expected sum of these numbers, which are from [`Self::numbers`].
    fn sum(self, numbers: &[f32]) -> Bound {
        let sum = sum(numbers.len(), |i| numbers[i].into());
        match self {
            Summands::Whole | Summands::Outlier => Bound::exact(sum.value),
            // In every rung, a thread adds only a few numbers sequentially.
            Summands::Real | Summands::With(..) => sum.within(64.0),
        }
    }
}

/// The predicted counts of a rung if all blocks are full, except in the last launch.
fn predicted(work: Work, rung: &Rung<Arguments, Reduction>, len: usize, most: u32) -> Work {
    let sectors = |elements: usize| elements.div_ceil(8);
    match rung.kernel.facts {
        // The additions are neither loads nor stores.
        Reduction::Cleared(_) => work.with_sectors(sectors(len), 1),
        Reduction::Passes(of_block) => {
            let (mut loaded, mut left, mut blocks) = (0, len, 0);
            while left > 1 || blocks == 0 {
                loaded += sectors(left);
                left = left.div_ceil(of_block);
                blocks += left;
            }
            // Each block stores its own sum.
            let work = work.with_sectors(loaded, blocks).with_conflicts(blocks * conflicts(rung.name));
            work.with_divergent_branches(blocks * divergent(rung.name))
        }
        // Both elements of a pair are loaded, a request each.
        Reduction::Rounds => {
            let (mut loaded, mut stored, mut left) = (0, 0, len);
            while left > 1 {
                let pairs = left / 2;
                (loaded, stored) = (loaded + 2 * sectors(left), stored + sectors(pairs));
                left = pairs;
            }
            work.with_sectors(loaded, stored).with_conflicts(0)
        }
        Reduction::Resident(of_block) => {
            let blocks = len.div_ceil(of_block).min(most as usize);
            // The sums, their total, and the counter that returns to 0.
            work.with_sectors(sectors(len) + sectors(blocks), blocks + 2).with_conflicts(0)
        }
    }
}

/// Passes beyond the first that the requests of a block take in the tree of a rung. Neighbouring lanes use words that are
/// adjacent, or at most the number of lanes apart; except for pairs number `t`, which are twice the stride apart.
fn conflicts(rung: &str) -> usize {
    if rung != "strided" {
        return 0;
    }
    let strides = (0..8).map(|round| 1 << round);
    let of_round = |stride: usize| {
        let adding = BLOCK / (2 * stride);
        let warps = (0..adding).step_by(WARP);
        // The two summands are loaded, and the sum is stored.
        warps
            .map(|first| 3 * (passes((first..adding.min(first + WARP)).map(|t| 2 * stride * t)) - 1))
            .sum::<usize>()
    };
    strides.map(of_round).sum()
}

/// Branches of a block at which only some lanes of a warp have work.
fn divergent(rung: &str) -> usize {
    // The threads that add with this stride.
    let adds = |stride: usize, tid: usize| match rung {
        "modulo" | "mask" => tid.is_multiple_of(2 * stride),
        "strided" => tid < BLOCK / (2 * stride),
        _ => tid < stride,
    };
    let parts = |does: &dyn Fn(usize) -> bool| {
        let warps = (0..BLOCK).step_by(WARP);
        let of_warp = |first: usize| (first..first + WARP).filter(|&tid| does(tid)).count();
        warps.filter(|&first| !matches!(of_warp(first), 0 | WARP)).count()
    };
    let rounds = (0..8).map(|round| parts(&|tid| adds(1 << round, tid))).sum::<usize>();
    // With shuffles no warp diverges until the first lane of each warp passes its sum on.
    let before = if rung == "shuffle" { parts(&|tid| tid.is_multiple_of(WARP)) } else { rounds };
    // The first thread writes the sum.
    before + parts(&|tid| tid == 0)
}

fn trial(rung: &'static Rung<Arguments, Reduction>, len: usize, summands: Summands, most: u32) -> Trial {
    let mut kernels = vec![rung.kernel.meta.name];
    if matches!(rung.kernel.facts, Reduction::Cleared(_)) {
        kernels.insert(0, reduce_clear::META.name);
    }
    let work = predicted(Work::of_bytes(4 * len).with_flop(len), rung, len, most);
    let words = format!("{len} elements, {summands:?}");
    Trial::new((rung.name, rung.idea, kernels), len, words, work, move || {
        let numbers = Arc::new(summands.numbers(len));
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", Arc::clone(&numbers));
        let out = arrays.output("out", 1);
        // Sums of blocks, and their sums in turn: two arrays that alternate.
        let left = rung.kernel.left(len);
        let sums = [(); 2].map(|()| arrays.scratch("partials", vec![0.0f32; left]));
        let arrived = arrays.scratch("arrived", vec![0u32]);
        let launch = move |on: &dyn Launcher, p: &Placed| {
            let [partials, other] = sums.map(|sums| p.of(sums));
            let (out, inp, arrived) = (p.of(out), p.of(inp), p.of(arrived));
            let arguments = Arguments { out, inp, partials, arrived, len: len as u32 };
            launch(rung, on, p, (arguments, other), most)
        };
        Problem::new(arrays, launch, move |_, _| summands.sum(&numbers))
    })
}

/// Computes the sum of the array, with as many launches as the rung needs.
fn launch(
    rung: &Rung<Arguments, Reduction>,
    on: &dyn Launcher,
    placed: &Placed,
    (arguments, other): (Arguments, RawBuffer<f32>),
    most: u32,
) -> Result<(), LaunchError> {
    let (kernel, len) = (rung.kernel, arguments.len as usize);
    match kernel.facts {
        // SAFETY: `out` has one element, and the grid is the kernel's for `len`.
        Reduction::Cleared(_) => unsafe {
            reduce_clear::launch(on, LaunchConfig::new(1, 1), arguments.out)?;
            (kernel.launch)(on, kernel.config(len), arguments)
        },
        Reduction::Passes(_) | Reduction::Rounds => {
            let (mut inp, mut left) = (arguments.inp, len);
            let mut turns = [arguments.partials, other].into_iter().cycle();
            loop {
                let (config, sums) = (kernel.config(left), kernel.left(left));
                let partials = turns.next().unwrap_or(other);
                let out = if sums == 1 { arguments.out } else { partials };
                let arguments = Arguments { out, inp, len: left as u32, ..arguments };
                // SAFETY: the grid is the kernel's for the remaining elements, and `out` has room for its sums.
                unsafe { (kernel.launch)(on, config, arguments)? };
                if sums == 1 {
                    return Ok(());
                }
                (inp, left) = (out, sums);
            }
        }
        Reduction::Resident(_) => {
            let config = placed.resident(kernel.meta, kernel.config(len), most)?;
            // SAFETY: there are partial sums for more blocks, and no block has arrived yet.
            unsafe { (kernel.launch)(on, config, arguments) }
        }
    }
}
