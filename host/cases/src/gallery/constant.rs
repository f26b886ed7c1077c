//! A table in constant memory and in global memory.

use gpu_kernels::gallery::constant::{Arguments, Entries, READS, RUNGS, STEP, VALUES, entry};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let (len, shifts): (usize, &[u32]) = match scale {
        Scale::Tiny => (34, &[1]),
        Scale::Edges => (300, &[0, 2, 5]),
        Scale::Count => (1 << 10, &[0, 1, 2, 3, 4, 5]),
        Scale::Laptop => (1 << 16, &[0, 2, 5]),
        Scale::Gpu => (1 << 22, &[0, 1, 2, 3, 4, 5]),
    };
    let (tables, argument) = RUNGS.split_at(RUNGS.len() - 1);
    let mut trials = each(tables, shifts, |rung, shift| trial(rung, len, shift));
    // Entries in an argument are the same for all lanes.
    trials.push(trial(&argument[0], len, 5));
    trials
}

fn trial(rung: &'static Rung<Arguments>, len: usize, shift: u32) -> Trial {
    let addresses = 32 >> shift;
    let work = Work::of_bytes(4 * len).with_flop(READS * len);
    Trial::of_rung(rung, addresses, format!("{len} threads, {addresses} addresses"), work, move || {
        let mut arrays = Arrays::default();
        let (table, out) = (arrays.input("table", VALUES.to_vec()), arrays.output("out", len));
        let arguments = move |p: &Placed| {
            let entries = Entries(core::array::from_fn(|turn| VALUES[entry(turn, 0, shift)]));
            Arguments { out: p.of(out), table: p.of(table), shift, entries, len: len as u32 }
        };
        let oracle = move |_, i| {
            let first = (i % 32) / (1 << shift);
            // Integers with a sum below 2^24.
            let entries = (0..READS).map(|turn| f64::from(VALUES[(first + turn * STEP) % VALUES.len()]));
            Bound::exact(entries.sum())
        };
        // SAFETY: there is one element per thread and the whole table, and the grid is the kernel's.
        unsafe { arrays.launch(rung, (rung.kernel.config)(len), arguments, oracle) }
    })
}
