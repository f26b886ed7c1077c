//! A table in constant memory and in global memory.

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::constant::{Arguments, Entries, READS, RUNGS, STEP, VALUES, entry};

use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "constant",
    title: "Constant memory",
    axis: Axis { label: "addresses of a warp", is_log: true },
    measure: Measure::Time,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::time_over("const", "global", 1.0).at(1.0).from("one pass for each of the 16 reads").why(
            "The index is computed, so each read is a load instruction (`LDC`). The constant port takes more than two cycles per \
             pass. L1 answers a request of a warp in one.",
        ),
        Prediction::growth("const", 1.0, 32.0)
            .at(32.0)
            .from("32 passes for 1")
            .elsewhere("different addresses are serialised", "GPUs, RTX 3090 Ti")
            .why("Each further address costs a pass of two cycles. The first one costs a little more, so the ratio stays below 32."),
        Prediction::growth("global", 1.0, 1.0)
            .at(32.0)
            .from("32 neighbouring words lie in one or two lines")
            .why("A warp gets all words of a line in one pass."),
        Prediction::time_over("read_only", "global", 1.0)
            .at(1.0)
            .from("the same L1")
            .why("Since compute capability 7.0 both go through L1."),
        Prediction::share_of_copy("argument", 1.0).from("4 bytes stored per thread, and no load").why(
            "The index is known when the kernel is compiled, so the entry is an operand of the addition, `c[0][offset]`: the \
             broadcast that constant memory is made for. What is left is the store and the work of starting the blocks.",
        ),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let (len, shifts): (usize, &[u32]) = match scale {
        Scale::Tiny => (34, &[1]),
        Scale::Edges => (300, &[0, 2, 5]),
        Scale::Count => (1 << 10, &[0, 1, 2, 3, 4, 5]),
        Scale::Laptop => (1 << 16, &[0, 2, 5]),
        Scale::Gpu => (1 << 22, &[0, 1, 2, 3, 4, 5]),
    };
    // Entries in an argument are the same for all lanes.
    let of_rung = |rung: &'static Rung<Arguments>| match rung.name {
        "argument" => vec![trial(rung, len, 5)],
        _ => shifts.iter().map(|&shift| trial(rung, len, shift)).collect(),
    };
    RUNGS.iter().flat_map(of_rung).collect()
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
                let entries = Entries(core::array::from_fn(|turn| VALUES[entry(turn, 0, shift)]));
                let arguments = Arguments { out, table, shift, entries, len: len as u32 };
                // SAFETY: there is one element per thread and the whole table, and the grid is the kernel's.
                unsafe { (rung.kernel.launch)(on, (rung.kernel.config)(len), arguments) }
            },
            move |_, i| {
                let first = (i % 32) / (1 << shift);
                // Integers with a sum below 2^24.
                let entries = (0..READS).map(|turn| f64::from(VALUES[(first + turn * STEP) % VALUES.len()]));
                Bound::exact(entries.sum())
            },
        )
    })
}
