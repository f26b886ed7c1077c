//! A machine's peak FLOP rates: chains of multiplications and additions on a CPU and on a GPU.

mod cpu;

use cuda_std::launch::LaunchConfig;
use ferrowarp::device::Device;
use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::peaks::{Arguments, Chains, OPERATIONS, RUNGS};

use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work};
use crate::compare::Bound;
use crate::reference::Sum;

pub(super) const LESSON: Lesson = Lesson {
    name: "peaks",
    title: "Where the FLOPs are",
    axis: Axis { label: "threads", is_log: true },
    measure: Measure::Flops,
    rungs: || cpu::rungs().chain(RUNGS.iter().map(|rung| (rung.name, rung.idea))).collect(),
    trials,
    predictions,
};

/// Threads per block.
const BLOCK: usize = 256;

/// The map of a chain: `x` becomes `factor * x + summand`, repeatedly.
#[derive(Clone, Copy)]
struct Map {
    factor: f32,
    summand: f32,
}

/// Adds a quarter, exactly for limited counts: shows how often it was applied.
const COUNTS: Map = Map { factor: 1.0, summand: 0.25 };
/// Halves the distance from 1.5.
const HALVES: Map = Map { factor: 0.5, summand: 0.75 };
/// Moves 1/8192 closer to 1 each time, so that all bits of the numbers are in use.
const NEARS: Map = Map { factor: 1.0 - 1.0 / 8192.0, summand: 1.0 / 8192.0 };

impl Map {
    /// The sum of chains that begin with `starts`, after `times` steps, in closed form.
    fn after(self, times: usize, starts: impl Iterator<Item = f64>) -> Bound {
        let (factor, summand) = (f64::from(self.factor), f64::from(self.summand));
        if factor == 1.0 {
            return Bound::exact(starts.map(|start| start + times as f64 * summand).sum());
        }
        let left = factor.powf(times as f64);
        let ends: Vec<f64> =
            starts.map(|start| start * left + summand * (1.0 - left) / (1.0 - factor)).collect();
        // Each rounding is reduced by the following steps. No number is above 2.
        let roundings = (times as f64).min(1.0 / (1.0 - factor)) + ends.len() as f64;
        Sum { value: ends.iter().sum(), magnitude: 2.0 * ends.len() as f64 }.within(roundings)
    }
}

/// The initial value of chain `k` of thread `i`, or of a vector's lane `i`.
fn start(i: usize, k: usize) -> f32 {
    ((i + 3 * k) % 8) as f32 / 4.0
}

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::share_of_peak("core_scalar", 1.0)
            .from("two multiply-adds per cycle")
            .elsewhere("22.8 GFLOP/s, not measured", "Initial CUDA Performance Lessons, Ryzen 9950X")
            .why("A virtual machine does not report its clock, so there may be no peak to compare with."),
        Prediction::rate_over("core_simd", "core_scalar", 16.0)
            .from("16 numbers per instruction for 1")
            .elsewhere("16 x, not measured", "Initial CUDA Performance Lessons, Ryzen 9950X")
            .why("The clock is a little lower with the widest vectors."),
        Prediction::rate_over("cores_simd", "core_simd", 16.0)
            .from("16 threads for 1")
            .elsewhere("32 x, not measured", "Initial CUDA Performance Lessons, Ryzen 9950X")
            .why("Two of the 16 threads share a core, so there are eight cores' worth of arithmetic."),
        Prediction::share_of_peak("chain_1", 0.5)
            .at(33_792.0)
            .from("2 instructions in 4 cycles")
            .why("An instruction takes five cycles here and not four: see the text."),
        Prediction::share_of_peak("chain_1", 1.0).from("4 warps and more per scheduler").why(
            "However many warps there are, an instruction takes two cycles of its scheduler. The reading of operands is the limit.",
        ),
        Prediction::share_of_peak("chain_2", 1.0)
            .from("4 instructions in 4 cycles")
            .why("Two chains get two instructions in three cycles. The reading of operands is the limit."),
        Prediction::share_of_peak("chain_4", 1.0)
            .from("8 instructions in 4 cycles")
            .why("A warp can issue again and again, so its constant operands stay in the operand cache."),
        Prediction::share_of_peak("chain_8", 1.0)
            .from("16 instructions in 4 cycles")
            .elsewhere("95 TFLOP/s, not measured", "Initial CUDA Performance Lessons, RTX 4090 with a Ryzen 9950X")
            .why("The loop itself takes 2 % of the instructions."),
        Prediction::share_of_peak("chain_8_f64", 1.0)
            .from("half of the lanes")
            .elsewhere("1/64 of f32", "Notes on lecture 4 of CUDA MODE, RTX 3090")
            .why("The GPU lowers its clock under full load of f64, or the issue of f64 is not perfectly regular."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    // One block; one, two and four on each of an H200's 132 multiprocessors; and all that fit.
    const GPU: [usize; 5] = [1, 132, 2 * 132, 4 * 132, 8 * 132];
    let (blocks, turns, maps): (&[usize], usize, &[Map]) = match scale {
        Scale::Tiny => (&[1], 1, &[COUNTS]),
        Scale::Edges => (&[2], 2, &[COUNTS, HALVES, NEARS]),
        Scale::Count => (&[1], 4, &[NEARS]),
        Scale::Laptop => (&[1, 16], 32, &[NEARS]),
        Scale::Gpu => (&GPU, 512, &[NEARS]),
    };
    let times = match scale {
        Scale::Tiny | Scale::Edges | Scale::Count => 100,
        Scale::Laptop | Scale::Gpu => 1 << 21,
    };
    let kernels = RUNGS.iter().flat_map(|rung| {
        blocks.iter().flat_map(move |&blocks| maps.iter().map(move |&map| trial(rung, blocks, turns, map)))
    });
    cpu::trials(times).into_iter().chain(kernels).collect()
}

fn trial(rung: &'static Rung<Arguments, Chains>, blocks: usize, turns: usize, map: Map) -> Trial {
    let Chains { chains, bytes } = rung.kernel.facts;
    let threads = BLOCK * blocks;
    let mut work = Work::of_bytes(4.0 * threads as f64)
        .with_flop((2 * OPERATIONS * turns * threads) as f64)
        .with_sectors(0.0, (threads / 8) as f64);
    work.foretold.divergent_branches = Some(0.0);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    let words = format!("{blocks} blocks of {BLOCK}, {turns} iterations, factor {}", map.factor);
    let trial = Trial::new(name, threads as f64, words, work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", threads);
        Problem::new(
            arrays,
            move |on, placed| {
                let Map { factor, summand } = map;
                let arguments = Arguments { out: placed.of(out), factor, summand, turns: turns as u32 };
                let config = LaunchConfig::new(blocks as u32, BLOCK as u32);
                // SAFETY: `out` has one element per thread.
                unsafe { (rung.kernel.launch)(on, config, arguments) }
            },
            move |_, i| {
                let starts = (0..chains).map(|k| f64::from(start(i, k)));
                map.after(turns * OPERATIONS / chains, starts)
            },
        )
    });
    trial.with_peak(move |device| peak(device, blocks, bytes))
}

/// The maximum operations per second at the device's clock, for `blocks` blocks of `bytes`-byte numbers; `None` for a CPU.
fn peak(device: &Device, blocks: usize, bytes: usize) -> Option<f64> {
    let peaks = device.peaks().ok()??;
    let multiprocessors = device.multiprocessors();
    let busy = blocks.min(multiprocessors) as f64 / multiprocessors as f64;
    let of_type = if bytes == 4 { 1.0 } else { f64_part(device.limits().capability) };
    Some(busy * of_type * peaks.flops)
}

/// `f64` operations per `f32` operation, by compute capability (CUDA programming guide, "throughput of native arithmetic
/// instructions").
fn f64_part(capability: u32) -> f64 {
    match capability {
        80 | 90 | 100 => 1.0 / 2.0,
        _ => 1.0 / 64.0,
    }
}
