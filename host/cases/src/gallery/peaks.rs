//! A machine's peak FLOP rates: chains of multiplications and additions on a CPU and on a GPU.

mod cpu;

use gpu_kernels::gallery::peaks::{Arguments, Chains, OPERATIONS, RUNGS};

use super::prelude::*;

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
        trials.extend(each(RUNGS, blocks, |rung, blocks| trial(rung, blocks, turns, map)));
    }
    trials
}

fn trial(rung: &'static Rung<Arguments, Chains>, blocks: usize, turns: usize, map: Map) -> Trial {
    let Chains { chains, bytes } = rung.kernel.facts;
    let threads = BLOCK * blocks;
    let work = Work::of_bytes(4 * threads).with_flop(2 * OPERATIONS * turns * threads);
    let work = work.with_sectors(0, threads / 8).with_divergent_branches(0);
    let words = format!("{blocks} blocks of {BLOCK}, {turns} iterations, factor {}", map.factor);
    let trial = Trial::of_rung(rung, threads, words, work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", threads);
        let Map { factor, summand } = map;
        let arguments = move |p: &Placed| Arguments { out: p.of(out), factor, summand, turns: turns as u32 };
        let oracle = move |_, i| {
            let starts = (0..chains).map(|k| f64::from(start(i, k)));
            map.after(turns * OPERATIONS / chains, starts)
        };
        // SAFETY: `out` has one element per thread.
        unsafe { arrays.launch(rung, LaunchConfig::new(blocks as u32, BLOCK as u32), arguments, oracle) }
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
