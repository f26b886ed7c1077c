//! The three ways in which a fast softmax goes wrong, each as a small kernel that does: the ladder's tests find them.
//!
//! All run on one warp and one row, and stand for warps that merge: every lane has a maximum of its own.

use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::warp::{reduce_max, reduce_sum};
use cuda_std::{kernel, thread};

use ferrowarp::Softmax;
use ferrowarp::device::Device;
use ferrowarp_cases::compare::compare;
use ferrowarp_cases::reference::{RELATIVE, softmax_bounds};
use ferrowarp_cases::softmax::ladder::Ladder;
use ferrowarp_cases::softmax::logits::edge_rows;
use ferrowarp_cases::{Case, assert_right};

const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// Writes `numerator(x) / sum` for all that this lane takes.
unsafe fn write(out: *mut f32, inp: &[f32], tid: usize, value: impl Fn(f32) -> f32) {
    for col in (tid..inp.len()).step_by(32) {
        // SAFETY: `out` is as long as `inp`, and this thread alone writes the element.
        unsafe { *out.add(col) = value(inp[col]) };
    }
}

fn largest(inp: &[f32], tid: usize, start: f32) -> f32 {
    inp.iter().skip(tid).step_by(32).copied().fold(start, f32::max)
}

/// Exponents against a lane's own maximum, which is -inf in a lane that sees nothing else: -inf - -inf is NaN.
///
/// # Safety
/// One warp; `out` is as long as `inp`.
#[kernel]
pub unsafe fn trapped_by_local_maxima_of_minus_inf(out: *mut f32, inp: &[f32]) {
    let tid = thread::thread_idx_x() as usize;
    let local = largest(inp, tid, f32::NEG_INFINITY);
    let sum: f32 = inp.iter().skip(tid).step_by(32).map(|x| (x - local).exp()).sum();
    // SAFETY: the whole warp comes here.
    unsafe {
        let max = reduce_max(local);
        let sum = reduce_sum(sum * (local - max).exp());
        write(out, inp, tid, |x| (x - max).exp() / sum);
    }
}

/// `exp2(x * log2e - max * log2e)` with a lane's own maximum: the rounding of `max * log2e` differs from lane to lane.
///
/// # Safety
/// One warp; `out` is as long as `inp`.
#[kernel]
pub unsafe fn trapped_by_folded_log2e(out: *mut f32, inp: &[f32]) {
    let tid = thread::thread_idx_x() as usize;
    let local = largest(inp, tid, f32::MIN);
    let exp = |x: f32, max: f32| x.mul_add(LOG2_E, -(max * LOG2_E)).exp2();
    let sum: f32 = inp.iter().skip(tid).step_by(32).map(|&x| exp(x, local)).sum();
    // SAFETY: the whole warp comes here.
    unsafe {
        let max = reduce_max(local);
        let sum = reduce_sum(sum * exp(local, max));
        write(out, inp, tid, |x| exp(x, max) / sum);
    }
}

/// `max * log2e` of a row's one maximum, which is infinite where the maximum is finite but very large.
///
/// # Safety
/// One warp; `out` is as long as `inp`.
#[kernel]
pub unsafe fn trapped_by_overflow(out: *mut f32, inp: &[f32]) {
    let tid = thread::thread_idx_x() as usize;
    // SAFETY: the whole warp comes here and below.
    let max = unsafe { reduce_max(largest(inp, tid, f32::NEG_INFINITY)) };
    let exp = |x: f32| x.mul_add(LOG2_E, -(max * LOG2_E)).exp2();
    let sum: f32 = inp.iter().skip(tid).step_by(32).map(|&x| exp(x)).sum();
    // SAFETY: as above.
    unsafe {
        let sum = reduce_sum(sum);
        write(out, inp, tid, |x| exp(x) / sum);
    }
}

/// The edge rows that a trapped kernel gets wrong, all of which every kernel of the ladder gets right.
macro_rules! caught {
    ($kernel:ident) => {{
        let on = Executor::new();
        let is_wrong = |row: &[f32]| {
            let mut out = vec![0.0f32; row.len()];
            // SAFETY: one warp, and buffers of one length.
            unsafe { $kernel::launch(&on, LaunchConfig::new(1, 32), &mut out, row) }.unwrap();
            let out: Vec<f64> = out.into_iter().map(f64::from).collect();
            compare("out", &out, &softmax_bounds::<f32>(row, row.len(), &Softmax::new(), RELATIVE)).is_err()
        };
        let caught: Vec<_> = edge_rows(133).into_iter().filter(|(_, row)| is_wrong(row)).collect();
        let device = Device::cpu();
        for (_, row) in &caught {
            let problem = Ladder { rows: 1, cols: row.len(), offsets: [0; 2], logits: row.clone() };
            assert_right(&problem.cases(device.limits()), &device, Case::assess);
        }
        caught.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    }};
}

#[test]
fn local_maxima_of_minus_inf_are_found() {
    let caught = caught!(trapped_by_local_maxima_of_minus_inf);
    assert_eq!(
        caught,
        [
            "all but the first -inf",
            "all but the last -inf",
            "the smallest number and -inf",
            "the smallest number after -inf"
        ]
    );
}

#[test]
fn folded_log2e_with_local_maxima_is_found() {
    let caught = caught!(trapped_by_folded_log2e);
    assert!(caught.contains(&"around 1e4") && caught.contains(&"around 1e5"), "{caught:?}");
}

#[test]
fn overflow_of_max_times_log2e_is_found() {
    let caught = caught!(trapped_by_overflow);
    let large = ["the smallest number throughout", "the largest number throughout"];
    assert!(large.iter().all(|name| caught.contains(name)), "{caught:?}");
}
