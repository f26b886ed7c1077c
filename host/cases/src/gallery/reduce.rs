//! The sum of an array.

use std::sync::Arc;

use cuda_std::launch::{LaunchConfig, LaunchError, Launcher};
use gpu_kernels::gallery::reduce::{Arguments, Launches, RUNGS, Rung, reduce_clear};

use super::prediction::h200;
use super::theory::{WARP, passes};
use super::{
    Arrays, Axis, Foretold, Lesson, Measure, Placed, Prediction, Problem, Scale, Trial, Work, numbers,
    numbers_as, sum,
};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "reduce",
    title: "The sum of an array",
    axis: Axis { label: "elements", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

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

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::cycles("atomic", MOST_ATOMIC as f64).from("one addition per cycle").why(
            "The slice of L2 that holds the sum needs more than one cycle for an addition of f32.",
        ),
        Prediction::rate("modulo", h200::MEMORY)
            .from("4 bytes per element at 4.8 TB/s")
            .why("Most of the time goes into barriers, remainders and diverged warps, and not into the bytes."),
        Prediction::time_over("mask", "modulo", 78_366.0 / 102_806.0)
            .from("instructions of warps, as counted")
            .why("The count is of PTX, where a remainder is one instruction. In machine code it is about twenty."),
        Prediction::time_over("strided", "mask", 60_166.0 / 78_366.0)
            .from("instructions of warps, as counted")
            .elsewhere("slower than before", "learning_cuda, GPU not named")
            .why("It has fewer instructions and no divergence, but 105 bank conflicts per block. The conflicts cost more."),
        Prediction::time_over("sequential", "modulo", 51_846.0 / 102_806.0)
            .from("instructions of warps, as counted")
            .elsewhere("a twelfth", "learning_cuda, GPU not named")
            .why(
                "The ratio is that of the instructions. A newer GPU loses less by a remainder and by divergence than the one of \
                 the other text, and most of the time is the load of one element per thread.",
            ),
        Prediction::time_over("first_add", "sequential", 27_903.0 / 51_846.0)
            .from("instructions of warps, as counted")
            .why("Half as many blocks do the same tree."),
        Prediction::time_over("shuffle", "first_add", 14_406.0 / 27_903.0)
            .from("instructions of warps, as counted")
            .why("The start of a block and its two loads per thread stay, so the time falls less than the instructions."),
        Prediction::rate("grid_stride", h200::MEMORY).from("4 bytes per element at 4.8 TB/s").why(
            "No memory reaches its datasheet: refresh and the opening of rows take time as well.",
        ),
        Prediction::rate("vec4", h200::MEMORY)
            .from("4 bytes per element at 4.8 TB/s")
            .why("More bytes in flight come closer to the datasheet. This kernel only reads, so it beats the best copy."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
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
    let mut trials = Vec::new();
    for rung in RUNGS {
        let is_atomic = rung.kernel.launches == Launches::Cleared;
        let most = if is_atomic { MOST_ATOMIC } else { usize::MAX };
        trials.extend(lens.iter().filter(|&&len| len <= most).map(|&len| trial(rung, len, Whole)));
        let is_resident = rung.kernel.launches == Launches::Resident;
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
fn foretold(rung: &Rung, len: usize, most: u32) -> Foretold {
    let sectors = |elements: usize| elements.div_ceil(8) as f64;
    let mut foretold = Foretold::default();
    match rung.kernel.launches {
        // The additions are neither loads nor stores.
        Launches::Cleared => {
            foretold.sectors_loaded = Some(sectors(len));
            foretold.sectors_stored = Some(1.0);
        }
        Launches::Passes => {
            let (mut loaded, mut blocks) = (0.0, Vec::new());
            let mut left = len;
            while left > 1 || blocks.is_empty() {
                loaded += sectors(left);
                left = left.div_ceil(rung.kernel.of_block);
                blocks.push(left);
            }
            let all = blocks.iter().sum::<usize>() as f64;
            foretold.sectors_loaded = Some(loaded);
            // Each block stores its own sum.
            foretold.sectors_stored = Some(all);
            foretold.bank_conflicts = Some(all * conflicts(rung.name) as f64);
            foretold.divergent_branches = Some(all * divergent(rung.name) as f64);
        }
        Launches::Resident => {
            let blocks = len.div_ceil(rung.kernel.of_block).min(most as usize);
            foretold.sectors_loaded = Some(sectors(len) + sectors(blocks));
            // The sums, their total, and the counter that returns to 0.
            foretold.sectors_stored = Some(blocks as f64 + 2.0);
            foretold.bank_conflicts = Some(0.0);
        }
    }
    foretold
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

fn trial(rung: &'static Rung, len: usize, summands: Summands, most: u32) -> Trial {
    let mut kernels = vec![rung.kernel.meta.name];
    if rung.kernel.launches == Launches::Cleared {
        kernels.insert(0, reduce_clear::META.name);
    }
    let work = Work::of_bytes(4.0 * len as f64).with_flop(len as f64);
    let words = format!("{len} elements, {summands:?}");
    let trial = Trial::new((rung.name, kernels), len as f64, words, work, move || {
        let numbers = Arc::new(summands.numbers(len));
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", Arc::clone(&numbers));
        let out = arrays.output("out", 1);
        // Sums of blocks, and their sums in turn: two arrays that alternate.
        let blocks = len.div_ceil(rung.kernel.of_block);
        let partials = [(); 2].map(|()| arrays.scratch("partials", vec![0.0f32; blocks]));
        let arrived = arrays.scratch("arrived", vec![0u32]);
        let arguments = move |placed: &Placed| Arguments {
            out: placed.of(out),
            inp: placed.of(inp),
            partials: placed.of(partials[0]),
            arrived: placed.of(arrived),
            len: len as u32,
        };
        Problem::new(
            arrays,
            move |on, placed| launch(rung, on, placed, (arguments(placed), placed.of(partials[1])), most),
            move |_, _| summands.sum(&numbers),
        )
    });
    trial.with_foretold(move || foretold(rung, len, most))
}

/// Computes the sum of the array, with as many launches as the rung needs.
fn launch(
    rung: &Rung,
    on: &dyn Launcher,
    placed: &Placed,
    (arguments, other): (Arguments, cuda_std::launch::RawBuffer<f32>),
    most: u32,
) -> Result<(), LaunchError> {
    let (kernel, len) = (rung.kernel, arguments.len as usize);
    match kernel.launches {
        // SAFETY: `out` has one element, and the grid is the kernel's for `len`.
        Launches::Cleared => unsafe {
            reduce_clear::launch(on, LaunchConfig::new(1, 1), arguments.out)?;
            (kernel.launch)(on, kernel.config(len), arguments)
        },
        Launches::Passes => {
            let (mut inp, mut left) = (arguments.inp, len);
            let mut turns = [arguments.partials, other].into_iter().cycle();
            loop {
                let config = kernel.config(left);
                let blocks = config.grid.x as usize;
                let partials = turns.next().unwrap_or(other);
                let out = if blocks == 1 { arguments.out } else { partials };
                // SAFETY: the grid is the kernel's for the remaining elements, and `out` has one element per block.
                unsafe {
                    (kernel.launch)(on, config, Arguments { out, inp, len: left as u32, ..arguments })?
                };
                if blocks == 1 {
                    return Ok(());
                }
                (inp, left) = (out, blocks);
            }
        }
        Launches::Resident => {
            let config = placed.resident(kernel.meta, kernel.config(len), most)?;
            // SAFETY: there are partial sums for more blocks, and no block has arrived yet.
            unsafe { (kernel.launch)(on, config, arguments) }
        }
    }
}
