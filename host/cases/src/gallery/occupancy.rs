//! Occupancy, limited by the shared memory per block.

use gpu_kernels::gallery::occupancy::{Arguments, Elements, RUNGS};

use super::prelude::*;

/// Maximum warps per multiprocessor of compute capability 9.0 (CUDA programming guide, "technical specifications per compute
/// capability").
const WARPS: usize = 64;
/// Its shared memory in bytes.
const SHARED: usize = 228 * 1024;
/// The part that the system reserves per block.
const RESERVED: usize = 1024;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let (len, warps): (usize, &[usize]) = match scale {
        Scale::Tiny => (70, &[64]),
        Scale::Edges => (5003, &[16, 64]),
        Scale::Count => (1 << 12, &[16, 64]),
        Scale::Laptop => (1 << 16, &[16, 32, 64]),
        Scale::Gpu => (1 << 26, &[4, 8, 16, 32, 48, 64]),
    };
    // Few blocks for a small array, so that threads run their loop several times.
    let most = if scale == Scale::Gpu { u32::MAX } else { 2 };
    each(RUNGS, warps, |rung, warps| trial(rung, len, warps, most))
}

/// The launch configuration that puts `warps` warps on a multiprocessor, with blocks for `len` elements.
fn config(rung: &str, len: usize, warps: usize) -> LaunchConfig {
    let (threads, of_block) = if rung == "partial" { (33, 2) } else { (128, 4) };
    // In units of 128 bytes, the hardware's allocation granularity.
    let bytes = (SHARED / (warps / of_block) - RESERVED) / 128 * 128;
    LaunchConfig::cover(len, threads).with_shared_bytes(bytes as u32)
}

fn trial(rung: &'static Rung<Arguments, Elements>, len: usize, warps: usize, most: u32) -> Trial {
    let config = config(rung.name, len, warps);
    let words = format!("{len} elements, {warps} of {WARPS} warps, blocks of {}", config.block.x);
    Trial::of_rung(rung, warps, words, Work::of_bytes(8 * len), move || {
        let mut arrays = Arrays::default();
        let (inp, out) = (arrays.input("inp", elements(len, word)), arrays.output("out", len));
        let launch = move |on: &dyn Launcher, p: &Placed| {
            let arguments = Arguments { out: p.of(out), inp: p.of(inp), len: len as u32 };
            let config = p.resident(rung.kernel.meta, config, most)?;
            // SAFETY: both arrays have `len` elements.
            unsafe { (rung.kernel.launch)(on, config, arguments) }
        };
        Problem::new(arrays, launch, move |_, i| Bound::exact(f64::from(word(i))))
    })
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
