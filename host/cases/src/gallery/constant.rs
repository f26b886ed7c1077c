//! A table in constant memory and in global memory.

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::constant::{Arguments, READS, RUNGS, STEP, VALUES};

use super::{Arrays, Axis, Lesson, Measure, Problem, Scale, Trial, Work};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "constant",
    title: "Constant memory",
    axis: Axis { label: "addresses of a warp", is_log: true },
    measure: Measure::Time,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
};

fn trials(scale: Scale) -> Vec<Trial> {
    let (len, shifts): (usize, &[u32]) = match scale {
        Scale::Tiny => (34, &[1]),
        Scale::Edges => (300, &[0, 2, 5]),
        Scale::Count => (1 << 10, &[0, 1, 2, 3, 4, 5]),
        Scale::Laptop => (1 << 16, &[0, 2, 5]),
        Scale::Gpu => (1 << 22, &[0, 1, 2, 3, 4, 5]),
    };
    RUNGS.iter().flat_map(|rung| shifts.iter().map(move |&shift| trial(rung, len, shift))).collect()
}

fn trial(rung: &'static Rung<Arguments>, len: usize, shift: u32) -> Trial {
    let addresses = 32 >> shift;
    let work = Work::of_bytes(4.0 * len as f64).with_flop((READS * len) as f64);
    let words = format!("{len} threads, {addresses} addresses");
    let name = (rung.name, vec![rung.kernel.meta.name]);
    Trial::new(name, f64::from(addresses), words, work, move || {
        let mut arrays = Arrays::default();
        let (table, out) = (arrays.input("table", VALUES.to_vec()), arrays.output("out", len));
        Problem::new(
            arrays,
            move |on, placed| {
                let (out, table) = (placed.of(out), placed.of(table));
                let arguments = Arguments { out, table, shift, len: len as u32 };
                // SAFETY: an element a thread, the whole table, and the grid is the kernel's for as many threads.
                unsafe { (rung.kernel.launch)(on, (rung.kernel.config)(len), arguments) }
            },
            move |_, i| {
                let first = (i % 32) / (1 << shift);
                // Whole numbers below 2^24 in sum.
                let entries = (0..READS).map(|turn| f64::from(VALUES[(first + turn * STEP) % VALUES.len()]));
                Bound::exact(entries.sum())
            },
        )
    })
}
