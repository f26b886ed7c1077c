//! Block size and occupancy.

use cuda_std::launch::LaunchConfig;
use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::occupancy::{Arguments, Elements, RUNGS};

use super::{Arrays, Axis, Lesson, Measure, Problem, Scale, Trial, Work, elements};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "occupancy",
    title: "Block size and occupancy",
    axis: Axis { label: "threads of a block", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
};

/// Warps that a multiprocessor of compute capability 9.0 has room for (CUDA programming guide, "technical specifications
/// per compute capability").
const WARPS: usize = 64;
/// Blocks.
const BLOCKS: usize = 32;

fn trials(scale: Scale) -> Vec<Trial> {
    let (len, threads): (usize, &[usize]) = match scale {
        Scale::Tiny => (70, &[48]),
        Scale::Edges => (5003, &[32, 33, 48, 512, 1024]),
        Scale::Count => (3 << 12, &[32, 48, 96, 256, 768, 1024]),
        Scale::Laptop => (1 << 16, &[32, 64, 256, 1024]),
        Scale::Gpu => (1 << 26, &[32, 33, 48, 64, 96, 128, 192, 256, 384, 512, 640, 768, 1024]),
    };
    let of_rung = |rung| threads.iter().map(move |&threads| trial(rung, len, threads));
    RUNGS.iter().flat_map(of_rung).collect()
}

/// Warps on a multiprocessor at once, where blocks are of so many threads and neither registers nor shared memory are short.
fn resident(threads: usize) -> usize {
    let of_block = threads.div_ceil(32);
    of_block * (WARPS / of_block).min(BLOCKS)
}

fn trial(rung: &'static Rung<Arguments, Elements>, len: usize, threads: usize) -> Trial {
    let Elements(each) = rung.kernel.facts;
    let work = Work::of_bytes(8.0 * len as f64);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    let words = format!("blocks of {threads}, {} of {WARPS} warps", resident(threads));
    Trial::new(name, threads as f64, words, work, move || {
        let element = |i: usize| (i as u32).wrapping_mul(2_654_435_761);
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", elements(len, element));
        let out = arrays.output("out", len);
        let config = LaunchConfig::cover(len.div_ceil(each), threads as u32);
        Problem::new(
            arrays,
            move |on, placed| {
                let (out, inp) = (placed.of(out), placed.of(inp));
                // SAFETY: both arrays have `len` elements, and there are threads for all of them.
                unsafe { (rung.kernel.launch)(on, config, Arguments { out, inp, len: len as u32 }) }
            },
            move |_, i| Bound::exact(f64::from(element(i))),
        )
    })
}
