//! Occupancy, limited by the shared memory per block.

use cuda_std::launch::LaunchConfig;
use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::occupancy::{Arguments, Elements, RUNGS};

use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, elements};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "occupancy",
    title: "Occupancy",
    axis: Axis { label: "warps on a multiprocessor", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

/// Maximum warps per multiprocessor of compute capability 9.0 (CUDA programming guide, "technical specifications per compute
/// capability").
const WARPS: usize = 64;
/// Its shared memory in bytes.
const SHARED: usize = 228 * 1024;
/// The part that the system reserves per block.
const RESERVED: usize = 1024;

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::growth("one", 64.0, 8.0).at(8.0).from("64 warps for 8").why(
            "With one load per thread the bytes in flight are proportional to the warps. Near 64 warps the load itself gets slower.",
        ),
        Prediction::time_over("four", "one", 0.25)
            .at(8.0)
            .from("4 loads for 1")
            .why("Four loads per thread do what four times as many warps do."),
        Prediction::share_of_copy("four", 1.0)
            .at(64.0)
            .from("32 KiB in flight per multiprocessor")
            .why("More bytes are in flight than memory needs, so memory is the limit."),
        Prediction::share_of_copy("sixteen", 1.0)
            .at(16.0)
            .from("32 KiB in flight per multiprocessor")
            .why("A quarter of the occupancy is enough if each thread has 16 loads in flight."),
        Prediction::time_over("partial", "one", 64.0 / 33.0)
            .at(64.0)
            .from("33 threads in the place of 64")
            .why("The second warp of a block has one thread, and takes a warp's place all the same."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let (len, warps): (usize, &[usize]) = match scale {
        Scale::Tiny => (70, &[64]),
        Scale::Edges => (5003, &[16, 64]),
        Scale::Count => (1 << 12, &[16, 64]),
        Scale::Laptop => (1 << 16, &[16, 32, 64]),
        Scale::Gpu => (1 << 26, &[4, 8, 16, 32, 48, 64]),
    };
    // Few blocks for a small array, so that threads run their loop several times.
    let most = if scale == Scale::Gpu { u32::MAX } else { 2 };
    let of_rung = |rung| warps.iter().map(move |&warps| trial(rung, len, warps, most));
    RUNGS.iter().flat_map(of_rung).collect()
}

/// The launch configuration that puts `warps` warps on a multiprocessor, with blocks for `len` elements.
fn config(rung: &str, len: usize, warps: usize) -> LaunchConfig {
    let (threads, of_block) = if rung == "partial" { (33, 2) } else { (128, 4) };
    // In units of 128 bytes, the hardware's allocation granularity.
    let bytes = (SHARED / (warps / of_block) - RESERVED) / 128 * 128;
    LaunchConfig::cover(len, threads).with_shared_bytes(bytes as u32)
}

fn trial(rung: &'static Rung<Arguments, Elements>, len: usize, warps: usize, most: u32) -> Trial {
    let work = Work::of_bytes(8.0 * len as f64);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    let config = config(rung.name, len, warps);
    let words = format!("{len} elements, {warps} of {WARPS} warps, blocks of {}", config.block.x);
    let trial = Trial::new(name, warps as f64, words, work, move || {
        let element = |i: usize| (i as u32).wrapping_mul(2_654_435_761);
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", elements(len, element));
        let out = arrays.output("out", len);
        Problem::new(
            arrays,
            move |on, placed| {
                let (out, inp) = (placed.of(out), placed.of(inp));
                let config = placed.resident(rung.kernel.meta, config, most)?;
                // SAFETY: both arrays have `len` elements.
                unsafe { (rung.kernel.launch)(on, config, Arguments { out, inp, len: len as u32 }) }
            },
            move |_, i| Bound::exact(f64::from(element(i))),
        )
    });
    trial.with_grid(rung.kernel.meta, config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_lets_the_named_warps_in_and_no_more() {
        for rung in ["one", "partial"] {
            for warps in [4, 8, 16, 32, 48, 64] {
                let config = config(rung, 1 << 20, warps);
                let of_block = config.block.x.div_ceil(32) as usize;
                let blocks = SHARED / (config.shared_bytes as usize + RESERVED);
                assert_eq!(blocks * of_block, warps, "{rung} with {} bytes", config.shared_bytes);
            }
        }
    }
}
