//! Few threads with much work each, or many with little.

use gpu_kernels::gallery::parallelism::{Arguments, PARTS, RUNGS};

use super::prelude::*;

/// Chunks of a row in `rows_split`.
const CHUNKS: usize = 128;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    // The rows of work and their iterations, and the rows and elements of a matrix.
    let (rows, turns, tall, len): (&[usize], usize, &[usize], usize) = match scale {
        Scale::Tiny => (&[3], 2, &[1], 300),
        Scale::Edges => (&[1, 33], 5, &[1, 7], 7 * 128 * 3),
        Scale::Count => (&[256], 16, &[8], 1 << 14),
        Scale::Laptop => (&[256, 1024], 16, &[8, 64], 1 << 18),
        Scale::Gpu => (&[1 << 10, 1 << 14, 1 << 17, 1 << 20], 1024, &[8, 64, 512, 4096], 1 << 27),
    };
    let of_rung = |rung: &'static Rung<Arguments, usize>| match rung.kernel.facts {
        0 => tall.iter().map(|&rows| maximum(rung, rows, len / rows)).collect::<Vec<_>>(),
        of_thread => rows.iter().map(|&rows| parts(rung, rows, turns, of_thread)).collect(),
    };
    RUNGS.iter().flat_map(of_rung).collect()
}

/// Rows of 16 parts.
fn parts(rung: &'static Rung<Arguments, usize>, rows: usize, turns: usize, of_thread: usize) -> Trial {
    let len = PARTS * rows;
    // A warp stores a number of each of its threads at once.
    let stored = if rows.is_multiple_of(WARP) { Some(len / 8 * of_thread.min(8)) } else { None };
    let mut work = Work::of_bytes(4 * len).with_flop(2 * turns * len);
    work.counts.sectors_stored = stored.map(|stored| stored as f64);
    Trial::of_rung(rung, rows, format!("{rows} rows of {PARTS} parts"), work, move || {
        let mut arrays = Arrays::default();
        let (out, inp) = (arrays.output("out", len), arrays.scratch("inp", vec![0]));
        let arguments = move |p: &Placed| {
            let (len, turns) = (len as u32, turns as u32);
            Arguments { out: p.of(out), inp: p.of(inp), cols: PARTS as u32, len, turns }
        };
        let oracle = move |_, i| {
            let step = |x: u32, _| x.wrapping_mul(1_664_525).wrapping_add(1);
            Bound::exact((0..turns).fold(i as u32, step).into())
        };
        let config = LaunchConfig::cover(len / of_thread, 256);
        // SAFETY: `out` has an element for each part, and the grid a thread for some of them.
        unsafe { arrays.launch(rung, config, arguments, oracle) }
    })
}

/// The maximum of each row of a matrix.
fn maximum(rung: &'static Rung<Arguments, usize>, rows: usize, cols: usize) -> Trial {
    let work = Work::of_bytes(4 * rows * cols);
    let words = format!("{rows} x {cols}");
    Trial::of_rung(rung, rows, words, work, move || {
        let x = Arc::new(elements(rows * cols, word));
        let mut arrays = Arrays::default();
        let (inp, out) = (arrays.input("inp", Arc::clone(&x)), arrays.output("out", rows));
        let of_chunks = arrays.scratch("maxima of chunks", vec![0_u32; rows * CHUNKS]);
        let launch = move |on: &dyn Launcher, p: &Placed| {
            // The input, the output, and their shape.
            let launches = match rung.name {
                "rows_split" if cols.is_multiple_of(CHUNKS) => vec![
                    (p.of(inp), p.of(of_chunks), rows * CHUNKS, cols / CHUNKS),
                    (p.of(of_chunks), p.of(out), rows, CHUNKS),
                ],
                _ => vec![(p.of(inp), p.of(out), rows, cols)],
            };
            launches.into_iter().try_for_each(|(inp, out, rows, cols)| {
                let arguments = Arguments { out, inp, cols: cols as u32, len: 0, turns: 0 };
                // SAFETY: the input has the rows, and the output an element for each of them.
                unsafe { (rung.kernel.launch)(on, LaunchConfig::new(rows as u32, 256), arguments) }
            })
        };
        Problem::new(arrays, launch, move |_, row| {
            Bound::exact(x[row * cols..][..cols].iter().copied().max().unwrap_or(0).into())
        })
    })
}
