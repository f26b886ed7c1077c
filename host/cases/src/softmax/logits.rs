//! Input rows for softmax.

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

const INF: f32 = f32::INFINITY;

/// Values in -8..8 with outliers, and rows of large numbers, of equal ones, and half of -inf.
pub fn logits(rows: usize, cols: usize) -> Vec<f32> {
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

/// Rows with results that are defined by convention or easily lost, of `cols` columns, at least 5: the first few elements,
/// and the rest.
pub fn edge_rows(cols: usize) -> Vec<(&'static str, Vec<f32>)> {
    let row = |first: &[f32], rest: f32| {
        let mut row = first.to_vec();
        row.resize(cols, rest);
        row
    };
    // Only -inf for all threads except the last or the first of a warp, whatever a thread's share.
    let mut last = row(&[], -INF);
    last[cols - 1] = -3.0;
    let mut smallest_last = row(&[], -INF);
    smallest_last[cols - 1] = f32::MIN;
    let each = |value: &dyn Fn(f32) -> f32| (0..cols).map(|i| value(i as f32)).collect();
    vec![
        ("some -inf", row(&[1.0, -INF, 2.0], 0.5)),
        ("all but the first -inf", row(&[-7.0], -INF)),
        ("all but the last -inf", last),
        ("all -inf", row(&[], -INF)),
        ("a NaN", row(&[1.0, f32::NAN], 2.0)),
        ("a NaN among -inf", row(&[1.0, f32::NAN], -INF)),
        ("a NaN after the maximum", row(&[90.0, 1.0, 2.0, 3.0, f32::NAN], -90.0)),
        ("a +inf", row(&[1.0, INF], 2.0)),
        ("two +inf", row(&[INF, INF], 2.0)),
        ("+inf and -inf", row(&[INF], -INF)),
        ("the smallest number throughout", row(&[], f32::MIN)),
        ("the smallest number and -inf", row(&[-INF, f32::MIN], -INF)),
        ("the smallest number after -inf", smallest_last),
        ("from the largest to the smallest", row(&[f32::MAX, f32::MIN, f32::MAX], 0.0)),
        ("the largest number throughout", row(&[], f32::MAX)),
        ("around 1e4", each(&|i| 1e4 + (i * 0.618).fract() * 9.0)),
        ("around 1e5", each(&|i| 1e5 + (i * 0.618).fract() * 9.0)),
        ("around -1e5", each(&|i| -1e5 - (i * 0.618).fract() * 30.0)),
        ("down to subnormal results", each(&|i| i * -0.8)),
    ]
}

/// Numbers of some rows, followed by rows that are hard for a softmax.
pub(super) fn with_hard_rows(rows: usize, cols: usize, is_hard: bool) -> Vec<f32> {
    let mut numbers = logits(rows, cols);
    let hard = if is_hard { edge_rows(cols) } else { Vec::new() };
    numbers.extend(hard.into_iter().flat_map(|(_, row)| row));
    numbers
}
