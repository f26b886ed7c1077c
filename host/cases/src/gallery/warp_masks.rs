//! Some lanes of a warp cooperate after the others have left.

use gpu_kernels::gallery::warp_masks::{Arguments, RUNGS};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let (len, parts): (usize, &[u32]) = match scale {
        Scale::Tiny => (40, &[4]),
        Scale::Edges => (1001, &[0, 1, 4, 8]),
        Scale::Count => (1 << 12, &[1, 4, 8]),
        Scale::Laptop => (1 << 16, &[1, 4, 8]),
        Scale::Gpu => (1 << 26, &[0, 1, 2, 4, 6, 8]),
    };
    each(RUNGS, parts, |rung, part| trial(rung, len, part))
}

fn trial(rung: &'static Rung<Arguments>, len: usize, part: u32) -> Trial {
    // All elements are read; stores touch the sectors of 8 that have a nonzero element.
    let stored = 1.0 - (1.0 - f64::from(part) / 8.0).powi(8);
    let mut work = Work::default().with_conflicts(0);
    work.bytes = (4.0 + 4.0 * stored) * len as f64;
    work.counts.sectors_loaded = Some(len.div_ceil(8) as f64);
    Trial::of_rung(rung, part as usize, format!("{len} elements, {part} of 8 not 0"), work, move || {
        let element = |x: f32| {
            let bits = x.to_bits();
            if bits % 8 < part { bits | 1 } else { 0 }
        };
        let x = Arc::new(numbers_as(len, 7, element));
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", Arc::clone(&x));
        let out = arrays.changed("out", elements(len, |_| 7_u32));
        let arguments = move |p: &Placed| Arguments { out: p.of(out), inp: p.of(inp), len: len as u32 };
        let oracle = move |_, i: usize| {
            let of_warp = &x[i - i % WARP..i];
            let before = of_warp.iter().rev().find(|&&x| x != 0).unwrap_or(&x[i]);
            Bound::exact(f64::from(if x[i] == 0 { 7 } else { x[i].wrapping_sub(*before) }))
        };
        // SAFETY: both arrays have `len` elements, and the grid is the kernel's for that many.
        unsafe { arrays.launch(rung, (rung.kernel.config)(len), arguments, oracle) }
    })
}
