//! A machine's peak rates: chains of operations on a CPU and on a GPU.

mod cpu;

use gpu_kernels::gallery::peaks::{
    Arguments, Chains, DIVIDEND, INCREMENT, RUNGS, What, divisor, tensor_element,
};

use super::prelude::*;

/// Threads per block.
const BLOCK: usize = 256;

/// The map of a chain: `x` becomes `factor * x + summand`, repeatedly.
#[derive(Clone, Copy, PartialEq)]
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

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
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
    let mut trials = cpu::trials(times);
    for &map in maps {
        // Only multiply-adds of floats depend on the map.
        let is_new = |what| map == maps[0] || matches!(what, What::F32 | What::F64);
        let rungs = RUNGS.iter().filter(|rung| is_new(rung.kernel.facts.what));
        trials
            .extend(rungs.flat_map(|rung| blocks.iter().map(move |&blocks| trial(rung, blocks, turns, map))));
    }
    trials
}

/// The sum of thread `i`'s chains after `times` steps of each.
type Sums = Box<dyn Fn(usize) -> Bound + Send + Sync>;

/// The sums of a kernel's threads.
fn sums(Chains { what, chains, .. }: Chains, times: usize, map: Map) -> Sums {
    // A thread's chains begin with some of eight numbers.
    let of_ends = move |ends: [Sum; 8], roundings| -> Sums {
        Box::new(move |i| {
            let ends = (0..chains).map(|k| ends[(i + 3 * k) % 8]);
            let add = |a: Sum, b: Sum| Sum { value: a.value + b.value, magnitude: a.magnitude + b.magnitude };
            ends.fold(Sum::default(), add).within(roundings)
        })
    };
    let exactly = |value: f64| Sum { value, magnitude: value.abs() };
    // An approximate function is off by 2^-20, of which the next steps keep a part: up to 2/3 for the cosine.
    let repeated = |first: fn(f64) -> f64, step: fn(f64) -> f64| {
        let end = |n: usize| exactly((0..times).fold(first(n as f64), |x, _| step(x)));
        of_ends(std::array::from_fn(end), 128.0)
    };
    let integers = |bits: u32, step: &dyn Fn(u64) -> u64| -> Sums {
        let ends: [u64; 8] = std::array::from_fn(|n| (0..times).fold(n as u64, |x, _| step(x)));
        Box::new(move |i| {
            let sum = (0..chains).fold(0, |sum: u64, k| sum.wrapping_add(ends[(i + 3 * k) % 8]));
            // The upper 24 bits of the number.
            Bound::exact((sum << (64 - bits) >> 40) as f64)
        })
    };
    let (low, divisor) = (u64::from(u32::MAX), u64::from(divisor(map.factor)));
    match what {
        What::F32 | What::F64 => {
            Box::new(move |i| map.after(times, (0..chains).map(|k| f64::from(start(i, k)))))
        }
        What::Own => {
            let end = |n: usize| (0..times).fold(n as f32 / -8.0, |x, _| x.mul_add(x, x));
            of_ends(std::array::from_fn(|n| exactly(end(n).into())), 0.0)
        }
        What::I32 => integers(32, &|x| x.wrapping_mul(x).wrapping_add(INCREMENT) & low),
        What::I64 => integers(64, &|x| x.wrapping_mul(x).wrapping_add(INCREMENT)),
        What::DivideI32 => integers(32, &|x| (x / divisor + (DIVIDEND & low)) & low),
        What::DivideI64 => integers(64, &|x| (x / divisor).wrapping_add(DIVIDEND)),
        What::Ex2 => repeated(|n| n / 4.0, |x| (-x).exp2()),
        What::Rsqrt => repeated(|n| (n + 1.0) / 4.0, |x| 1.0 / x.sqrt()),
        What::Cos => repeated(|n| n / 4.0, f64::cos),
        What::Shared => {
            let place = move |i: usize, k: usize| 4 * ((k + times) % 32 * 32 + i % 32);
            Box::new(move |i| Bound::exact((0..chains).map(|k| place(i, k)).sum::<usize>() as f64))
        }
        What::MmaSync | What::Wgmma => {
            // The rows of a warp, and the columns of all its accumulators.
            let (is_group, cols) = if what == What::Wgmma { (1, 128) } else { (0, 8 * chains) };
            Box::new(move |i| {
                let (warp, lane) = (i / WARP % 4, i % WARP);
                let rows = [0, 8].map(|more| is_group * 16 * warp + lane / 4 + more);
                let cols = (0..cols).filter(|col| col % 8 / 2 == lane % 4);
                let element = |row: usize, k| f64::from(tensor_element(row as u32, k));
                let dot = |row, col| (0..16).map(|k| element(row, k) * element(col, k)).sum::<f64>();
                let places = cols.flat_map(|col| rows.map(|row| (row, col)));
                let terms = places.map(|(row, col)| times as f64 * dot(row, col));
                terms.fold(Sum::default(), Sum::and).within(64.0)
            })
        }
    }
}

fn trial(rung: &'static Rung<Arguments, Chains>, blocks: usize, turns: usize, map: Map) -> Trial {
    let facts @ Chains { what, chains, steps } = rung.kernel.facts;
    let threads = BLOCK * blocks;
    let work = Work::of_bytes(4 * threads).with_flop(operations(what) * chains * steps * turns * threads);
    let work = work.with_sectors(0, threads / 8).with_divergent_branches(0);
    let words = format!("{blocks} blocks of {BLOCK}, {turns} iterations, factor {}", map.factor);
    let trial = Trial::of_rung(rung, threads, words, work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", threads);
        let Map { factor, summand } = map;
        let arguments = move |p: &Placed| Arguments { out: p.of(out), factor, summand, turns: turns as u32 };
        let sums = sums(facts, turns * steps, map);
        // SAFETY: `out` has one element per thread.
        unsafe {
            let config = LaunchConfig::new(blocks as u32, BLOCK as u32);
            arrays.launch(rung, config, arguments, move |_, i| sums(i))
        }
    });
    trial.with_peak(move |device| peak(device, blocks, what))
}

/// Operations of a thread in a step of a chain.
fn operations(what: What) -> usize {
    match what {
        What::Ex2 | What::Rsqrt | What::Cos | What::Shared => 1,
        What::MmaSync => 2 * 16 * 8 * 16 / WARP,
        What::Wgmma => 2 * 64 * 128 * 16 / (4 * WARP),
        _ => 2,
    }
}

/// The maximum operations per second at the device's clock, for `blocks` blocks; `None` for a CPU, and where no document
/// says it.
pub(super) fn peak(device: &Device, blocks: usize, what: What) -> Option<f64> {
    let peaks = device.peaks().ok()??;
    let multiprocessors = device.multiprocessors();
    let busy = blocks.min(multiprocessors) as f64 / multiprocessors as f64;
    Some(busy * of_f32(what, device.limits().capability)? * peaks.flops)
}

/// Operations per `f32` operation, by compute capability: CUDA programming guide, "throughput of native arithmetic
/// instructions", and of tensor cores the data sheets of A100 and H100.
fn of_f32(what: What, capability: u32) -> Option<f64> {
    let lanes = if capability == 80 { 64.0 } else { 128.0 };
    match what {
        What::F32 | What::Own => Some(1.0),
        What::F64 if matches!(capability, 80 | 90 | 100) => Some(0.5),
        What::F64 => Some(1.0 / 64.0),
        What::I32 => Some(64.0 / lanes),
        What::Ex2 | What::Rsqrt | What::Cos => Some(16.0 / (2.0 * lanes)),
        What::Shared => Some(32.0 / (2.0 * lanes)),
        What::MmaSync | What::Wgmma if matches!(capability, 80 | 90) => Some(16.0),
        What::I64 | What::DivideI32 | What::DivideI64 | What::MmaSync | What::Wgmma => None,
    }
}
