//! A histogram of bytes.

use gpu_kernels::gallery::histogram::{Arguments, BINS, RUNGS, histogram_clear};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    // For few words, few blocks, so that each thread has several.
    let (len, percents, most): (usize, &[usize], u32) = match scale {
        Scale::Tiny => (70, &[50], 1),
        Scale::Edges => (1001, &[0, 50, 100], 2),
        Scale::Count => (1 << 12, &[0, 50, 100], 2),
        Scale::Laptop => (1 << 15, &[0, 50, 100], u32::MAX),
        Scale::Gpu => (1 << 26, &[0, 10, 25, 50, 75, 90, 100], u32::MAX),
    };
    each(RUNGS, percents, |rung, percent| trial(rung, len, percent, most))
}

fn trial(rung: &'static Rung<Arguments, ()>, len: usize, percent: usize, most: u32) -> Trial {
    let work = Work::of_bytes(4 * len).with_sectors(len.div_ceil(8), BINS / 8);
    let name = (rung.name, rung.idea, vec![rung.kernel.meta.name, histogram_clear::META.name]);
    let words = format!("{} bytes, {percent} % of one value, the others of any", 4 * len);
    Trial::new(name, percent, words, work, move || {
        // A byte is 7, or any value.
        let byte = |bits: u32, n: u32| {
            let random = bits.wrapping_mul(2 * n + 1) ^ bits >> (n + 3);
            let is_common = (random >> 8) % 100 < percent as u32;
            if is_common { 7 } else { random.wrapping_mul(0x9e37_79b9) >> 24 }
        };
        let word =
            |x: f32| (0..4).fold(0, |word, n| word << 8 | byte(x.to_bits().wrapping_mul(0x85eb_ca6b), n));
        let words = Arc::new(numbers_as(len, 11, word));
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", Arc::clone(&words));
        let out = arrays.output("out", BINS);
        let launch = move |on: &dyn Launcher, p: &Placed| {
            let arguments = Arguments { out: p.of(out), inp: p.of(inp), len: len as u32 };
            let config = p.resident(rung.kernel.meta, LaunchConfig::cover(len, 256), most)?;
            // SAFETY: there is a counter for each value.
            unsafe {
                histogram_clear::launch(on, LaunchConfig::new(1, 256), arguments.out)?;
                (rung.kernel.launch)(on, config, arguments)
            }
        };
        let mut counts = [0_u32; BINS];
        words.iter().flat_map(|word| word.to_le_bytes()).for_each(|byte| counts[usize::from(byte)] += 1);
        Problem::new(arrays, launch, move |_, i| Bound::exact(counts[i].into()))
    })
}
