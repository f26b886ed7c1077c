//! Converts a picture from colour to grey.

use gpu_kernels::gallery::grey::{Arguments, RUNGS};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[18],
        Scale::Edges => &[1, 15, 17, 1000],
        Scale::Count => &[1 << 13],
        Scale::Laptop => &[1 << 18],
        // 2048x2048, and one whose time exceeds a launch's overhead.
        Scale::Gpu => &[1 << 22, 1 << 26],
    };
    each(RUNGS, lens, trial)
}

fn trial(rung: &'static Rung<Arguments>, len: usize) -> Trial {
    // A warp's three byte loads each touch the same three sectors; 16-byte loads one sector per lane. Output pixels are
    // bytes.
    let loads = if rung.name == "vectors" { 6 * len / 32 } else { 9 * len / 32 };
    let work = Work::of_bytes(4 * len).with_flop(5 * len).with_sectors(loads, len / 32);
    Trial::of_rung(rung, len, format!("{len} pixels"), work, move || {
        let pixels = Arc::new(numbers_as(3 * len, 6, |x| (x * 127.9 + 128.0) as u8));
        let mut arrays = Arrays::default();
        let (inp, out) = (arrays.input("inp", Arc::clone(&pixels)), arrays.changed("out", vec![0u8; len]));
        let arguments = move |p: &Placed| Arguments { out: p.of(out), inp: p.of(inp), len: len as u32 };
        let oracle = move |_, i: usize| {
            let weighted = [21, 72, 7].iter().zip(&pixels[3 * i..]);
            // In hundredths the sum is exact. A value at an integer may be rounded to just below it.
            let sum: u32 = weighted.map(|(weight, &byte)| weight * u32::from(byte)).sum();
            let value = f64::from(sum / 100);
            if sum.is_multiple_of(100) { Bound::near(value - 0.5, 0.5) } else { Bound::exact(value) }
        };
        // SAFETY: there are three bytes and one byte per pixel, and the grid is the kernel's.
        unsafe { arrays.launch(rung, (rung.kernel.config)(len), arguments, oracle) }
    })
}
