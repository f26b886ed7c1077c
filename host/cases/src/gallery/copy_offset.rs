//! Copies off a boundary, and copies with a stride.

use gpu_kernels::gallery::copy_offset::{Arguments, RUNGS};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let (len, distances): (usize, &[usize]) = match scale {
        Scale::Tiny => (3, &[1, 2]),
        // More than one block, with vectors that end within the array.
        Scale::Edges => (4400, &[1, 2, 7, 8, 33]),
        Scale::Count => (1 << 12, &[1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64]),
        Scale::Laptop => (1 << 18, &[1, 2, 4, 8, 16, 32]),
        Scale::Gpu => (1 << 24, &[1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64]),
    };
    // Strides of at least a sector, in arrays of up to 8 GiB.
    let wide = match scale {
        Scale::Tiny => 3..=3,
        Scale::Edges | Scale::Count => 3..=6,
        Scale::Laptop => 3..=8,
        Scale::Gpu => 3..=12,
    };
    let wide: Vec<usize> = wide.map(|power| 1 << power).collect();
    let (narrow, others) = RUNGS.split_at(4);
    let mut trials = each(narrow, distances, |rung, distance| trial(rung, len, distance));
    let few = (len / 32).next_power_of_two();
    trials.extend(each(others, &wide, |rung, distance| trial(rung, few, distance)));
    trials
}

/// The number of 32-byte sectors with the elements that a warp accesses from `first`, `step` apart.
fn sectors(first: usize, step: usize) -> usize {
    let mut sectors: Vec<usize> = (0..WARP).map(|lane| (first + lane * step) / 8).collect();
    sectors.dedup();
    sectors.len()
}

/// The number of sectors with `len` elements from `first`, each requested once: no vector spans two, and the elements before
/// the first whole vector and after the last one are requested separately.
fn whole_sectors(len: usize, first: usize) -> usize {
    let head = (first.next_multiple_of(8) - first).min(len);
    let vectors = (len - head) / 4;
    let has = |elements: usize| usize::from(elements > 0);
    has(head) + vectors.div_ceil(2) + has(len - head - 4 * vectors)
}

fn trial(rung: &'static Rung<Arguments>, len: usize, distance: usize) -> Trial {
    let is_stride = rung.name.starts_with("stride");
    let last = match rung.name {
        "stride_near" => 8 * len - 1,
        "stride" | "stride_far" => (len - 1) * distance,
        _ => len - 1 + distance,
    };
    // Whole warps all begin at the same offset in a sector.
    let touched = match rung.name {
        "stride" => sectors(0, distance) * len.div_ceil(WARP),
        "stride_far" | "stride_near" => len,
        "offset" => sectors(distance, 1) * len.div_ceil(WARP),
        _ => whole_sectors(len, distance),
    };
    let work = Work::of_bytes(8 * len).with_sectors(touched, touched);
    Trial::of_rung(rung, distance, format!("{len} elements, {distance}"), work, move || {
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", elements(last + 1, word));
        let out = arrays.changed("out", elements(last + 1, |_| 7));
        let arguments = move |p: &Placed| {
            let (len, distance) = (len as u32, distance as u32);
            Arguments { out: p.of(out), inp: p.of(inp), len, distance }
        };
        let distance = if rung.name == "stride_near" { 8 } else { distance };
        let oracle = move |_, i: usize| {
            let is_copied = if is_stride { i.is_multiple_of(distance) } else { i >= distance };
            Bound::exact(f64::from(if is_copied { word(i) } else { 7 }))
        };
        // SAFETY: both arrays hold the last copied element; the grid is the kernel's for `len`.
        unsafe { arrays.launch(rung, (rung.kernel.config)(len), arguments, oracle) }
    })
}
