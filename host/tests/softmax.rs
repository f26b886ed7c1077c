//! Every rung of the softmax ladder against the f64 oracle: on the CPU executor, and as PTX on the emulator.

#[path = "common/emulated.rs"]
mod emulated;
#[path = "softmax/traps.rs"]
mod traps;

use cuda_std::launch::Launcher;
use cuda_std::simt::Executor;
use ferrowarp::reference;
use gpu_kernels::softmax::{LADDER, Prepared};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

/// The largest relative error, except where one thread alone adds up a long row.
const RELATIVE: f64 = 2e-6;
/// Half a subnormal step, and what its rounding can add.
const ABSOLUTE: f64 = 3e-45;

/// The ladder's kernels that accept the shape, those too that their rung would not choose for it.
fn kernels(rows: usize, cols: usize) -> impl Iterator<Item = Prepared> {
    LADDER.iter().flat_map(|rung| rung.variants).filter_map(move |variant| variant.prepare(rows, cols))
}

/// Values in -8..8 with outliers, and rows that are hard on a softmax.
fn logits(rows: usize, cols: usize) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64((rows * 10_000 + cols) as u64);
    let mut logits: Vec<f32> = (0..rows * cols).map(|_| rng.random_range(-8.0..8.0)).collect();
    for (row, values) in logits.chunks_mut(cols).enumerate() {
        match row % 7 {
            1 => values.fill(3.5),
            2 => values.iter_mut().for_each(|x| *x += 1e4),
            3 => values.iter_mut().for_each(|x| *x = *x * 4.0 - 1e5),
            4 => values[cols - 1] = 90.0,
            5 => values.fill(f32::MIN),
            6 => values[..cols / 2].fill(f32::NEG_INFINITY),
            _ => {}
        }
    }
    logits
}

/// Runs a kernel, on an output that holds a NaN of our own wherever nobody writes.
fn run(on: &dyn Launcher, kernel: &Prepared, logits: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::from_bits(0x7fc0_1234); logits.len()];
    // SAFETY: the buffers are two, and of the shape's length.
    unsafe { kernel.launch(on, &mut out, logits) }
        .unwrap_or_else(|error| panic!("{}: {error}", kernel.meta().name));
    assert!(out.iter().all(|x| x.to_bits() != 0x7fc0_1234), "{}: unwritten elements", kernel.meta().name);
    out
}

/// What is wrong with probabilities, if anything. NaN must be where the oracle has it.
fn complaint(got: &[f32], logits: &[f32], cols: usize, relative: f64) -> Option<String> {
    let want = reference::softmax(logits, cols);
    for (row, logits) in logits.chunks(cols).enumerate() {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for (col, &x) in logits.iter().enumerate() {
            let (got, want) = (f64::from(got[row * cols + col]), want[row * cols + col]);
            // How far f32 has x - max from the truth; nothing for neighbours, however large.
            let rounding = (f64::from(x - max) - (f64::from(x) - f64::from(max))).abs();
            let rounding = if rounding.is_finite() { rounding } else { 0.0 };
            let error = (got - want).abs();
            if got.is_nan() != want.is_nan() || error > (relative + rounding) * want + ABSOLUTE {
                return Some(format!(
                    "row {row}, column {col}: {got:e}, not {want:e}: {:e}",
                    got / want - 1.0
                ));
            }
        }
    }
    None
}

/// All kernels at this shape against the oracle, and each a second time for the same bits.
fn assert_all_right(on: &dyn Launcher, rows: usize, cols: usize) {
    let logits = logits(rows, cols);
    for kernel in kernels(rows, cols) {
        let name = kernel.meta().name;
        // The naive kernel adds `cols` numbers one after the other; every other thread at most a 256th of them.
        let relative =
            if name == LADDER[0].variants[0].meta.name { RELATIVE.max(cols as f64 * 6e-8) } else { RELATIVE };
        let first = run(on, &kernel, &logits);
        if let Some(complaint) = complaint(&first, &logits, cols, relative) {
            panic!("{name} {rows}x{cols}: {complaint}");
        }
        let again = run(on, &kernel, &logits);
        assert!(first.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}: other bits");
    }
}

#[test]
fn every_rung_agrees_with_the_oracle_on_the_executor() {
    for cols in [1, 2, 3, 31, 32, 33, 127, 1023, 1024, 1025] {
        assert_all_right(&Executor::new(), 14, cols);
    }
    assert_all_right(&Executor::new(), 7, 4099);
    assert_all_right(&Executor::new(), 1, 12_673);
}

#[test]
fn every_rung_agrees_with_the_oracle_as_ptx() {
    for cols in [1, 2, 3, 31, 32, 33, 127] {
        assert_all_right(&emulated::emulator(), 7, cols);
    }
    assert_all_right(&emulated::emulator(), 2, 1023);
    assert_all_right(&emulated::emulator(), 1, 1025);
}

/// For another architecture, and with the threads in the other order, which shows another half of all races.
#[test]
fn every_rung_agrees_in_another_order_for_a_newer_architecture() {
    let emulator = emulated::emulator_of(&emulated::ptx(cuda_builder::NvvmArch::Compute90));
    let emulator = emulator.with_turns(ptx_emulator::Turns::Descending);
    assert_all_right(&emulator, 7, 33);
    assert_all_right(&emulator, 2, 513);
}

const INF: f32 = f32::INFINITY;

/// Rows whose answer is a matter of definition or easily lost, of 133 columns: the first few, and what follows them.
fn edge_rows() -> Vec<(&'static str, Vec<f32>)> {
    let row = |first: &[f32], rest: f32| {
        let mut row = first.to_vec();
        row.resize(133, rest);
        row
    };
    // Nothing but -inf for all threads except the last or the first of a warp, whatever a thread's share.
    let mut last = row(&[], -INF);
    last[132] = -3.0;
    vec![
        ("some -inf", row(&[1.0, -INF, 2.0], 0.5)),
        ("all but the first -inf", row(&[-7.0], -INF)),
        ("all but the last -inf", last),
        ("all -inf", row(&[], -INF)),
        ("a NaN", row(&[1.0, f32::NAN], 2.0)),
        ("a NaN among -inf", row(&[1.0, f32::NAN], -INF)),
        ("a NaN behind the maximum", row(&[90.0, 1.0, 2.0, 3.0, f32::NAN], -90.0)),
        ("a +inf", row(&[1.0, INF], 2.0)),
        ("two +inf", row(&[INF, INF], 2.0)),
        ("+inf and -inf", row(&[INF], -INF)),
        ("the smallest number throughout", row(&[], f32::MIN)),
        ("the smallest number and -inf", row(&[-INF, f32::MIN], -INF)),
        ("from the largest to the smallest", row(&[f32::MAX, f32::MIN, f32::MAX], 0.0)),
        ("the largest number throughout", row(&[], f32::MAX)),
        ("around 1e4", (0..133).map(|i| 1e4 + (i as f32 * 0.618).fract() * 9.0).collect()),
        ("around 1e5", (0..133).map(|i| 1e5 + (i as f32 * 0.618).fract() * 9.0).collect()),
        ("around -1e5", (0..133).map(|i| -1e5 - (i as f32 * 0.618).fract() * 30.0).collect()),
        ("down to subnormal results", (0..133).map(|i| i as f32 * -0.8).collect()),
    ]
}

/// The edge rows that a launch gets wrong, and how.
fn wrong_edges(mut launch: impl FnMut(&[f32]) -> Vec<f32>) -> Vec<(&'static str, String)> {
    let rows = edge_rows().into_iter();
    rows.filter_map(|(name, row)| Some((name, complaint(&launch(&row), &row, row.len(), RELATIVE)?)))
        .collect()
}

fn assert_edges_right(on: &dyn Launcher) {
    for kernel in kernels(1, 133) {
        assert_eq!(wrong_edges(|row| run(on, &kernel, row)), [], "{}", kernel.meta().name);
    }
    for kernel in kernels(1, 1) {
        for (x, want) in
            [(3.0, 1.0), (f32::MIN, 1.0), (INF, f32::NAN), (-INF, f32::NAN), (f32::NAN, f32::NAN)]
        {
            let got = run(on, &kernel, &[x])[0];
            assert!(got == want || got.is_nan() && want.is_nan(), "{} of {x}: {got}", kernel.meta().name);
        }
    }
}

#[test]
fn edge_rows_come_out_as_defined_on_the_executor() {
    assert_edges_right(&Executor::new());
}

#[test]
fn edge_rows_come_out_as_defined_as_ptx() {
    assert_edges_right(&emulated::emulator());
}

/// Both buffers at every distance from a 16-byte boundary, with widths that shift every row against it.
#[test]
fn buffers_need_no_alignment() {
    for (cols, from, to) in [(133, 1, 1), (133, 2, 3), (64, 3, 3), (64, 0, 1), (130, 1, 0), (5, 3, 2)] {
        let logits = logits(7, cols);
        let mut inp = vec![7.0; from];
        inp.extend(&logits);
        for kernel in kernels(7, cols) {
            for on in [&Executor::new() as &dyn Launcher, &emulated::emulator()] {
                let mut out = vec![-1.0f32; to + logits.len() + 4];
                let len = logits.len();
                // SAFETY: the buffers are two, and of the shape's length.
                unsafe { kernel.launch(on, &mut out[to..to + len], &inp[from..]) }.unwrap();
                let what = format!("{} {cols} {from} {to}", kernel.meta().name);
                assert_eq!(complaint(&out[to..to + len], &logits, cols, RELATIVE), None, "{what}");
                let around = out[..to].iter().chain(&out[to + len..]);
                assert!(around.into_iter().all(|&x| x == -1.0), "{what}: writes outside");
            }
        }
    }
}

/// A launcher that must not be used.
struct Nowhere;

impl Launcher for Nowhere {
    unsafe fn submit(
        &self,
        call: &cuda_std::launch::KernelCall<'_>,
    ) -> Result<(), cuda_std::launch::LaunchError> {
        panic!("{} was launched", call.meta.name)
    }
}

#[test]
fn without_elements_nothing_is_launched() {
    for (rows, cols) in [(0, 0), (0, 5), (5, 0)] {
        for rung in LADDER {
            let kernel = rung.prepare(rows, cols).unwrap();
            assert_eq!(kernel.config(), None);
            // SAFETY: there are no elements.
            unsafe { kernel.launch(&Nowhere, &mut [0.0f32; 0], &[0.0f32; 0]) }.unwrap();
        }
    }
}

#[test]
fn shapes_that_a_rung_cannot_do_are_refused() {
    for rung in LADDER {
        assert!(rung.prepare(1 << 32, 1).is_none(), "{}", rung.name);
        assert!(rung.prepare(1, 1 << 32).is_none(), "{}", rung.name);
        assert!(rung.prepare(u32::MAX as usize, 1 << 31).is_none(), "{}", rung.name);
    }
}

#[test]
fn every_width_has_a_kernel_until_a_row_fills_the_registers() {
    for cols in [1, 128, 129, 512, 513, 1024, 3072, 3073, 8192, 16_385, 32_768] {
        for rung in LADDER {
            let kernel = rung.prepare(3, cols).unwrap_or_else(|| panic!("{} has none for {cols}", rung.name));
            let config = kernel.config().unwrap();
            assert!(config.block.volume() <= 1024 && config.grid.y == 1, "{} {cols}: {config:?}", rung.name);
        }
    }
    let wide: Vec<_> = LADDER.iter().filter(|rung| rung.prepare(3, 32_769).is_none()).collect();
    assert!(wide.iter().map(|rung| rung.name).eq(["k8_resident"]), "{wide:?}");
}

#[test]
fn names_tell_the_file_and_the_place_in_the_ladder() {
    for (i, rung) in LADDER.iter().enumerate() {
        assert!(rung.name.starts_with(&format!("k{}_", i + 1)), "{}", rung.name);
        for variant in rung.variants {
            assert!(
                variant.meta.name.starts_with(&format!("softmax_{}", rung.name)),
                "{}",
                variant.meta.name
            );
            assert!(
                variant.meta.file.ends_with(&format!("softmax/{}.rs", rung.name)),
                "{}",
                variant.meta.file
            );
        }
    }
}
