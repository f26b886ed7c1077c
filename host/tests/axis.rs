//! Sums, maxima, cumulative sums and transposes against their f64 oracle, on the CPU executor and as PTX on the emulator; and what is
//! refused.

use cuda_std::half::bf16;
use ferrowarp::axis::{AxisError, CumulativeSum, Matrix, MatrixMut, Operation, Reduce, ScanBy, Transpose};
use ferrowarp::device::Device;
use ferrowarp_cases::axis::cases;
use ferrowarp_cases::softmax::Setting;
use ferrowarp_cases::{Case, Scope, assert_right, assert_right_under_shuffled_schedules, emulated};

#[test]
fn on_the_executor() {
    assert_right(&cases(&Setting::new(Scope::Executor)), &Device::cpu(), Case::assess_twice);
}

#[test]
fn under_shuffled_schedules() {
    assert_right_under_shuffled_schedules(cases);
}

#[test]
fn as_ptx() {
    emulated::assert_right_as_ptx(cases);
}

/// Which block has which tile changes nothing: sums of tiles are added in a fixed order.
#[test]
fn cumulative_sums_have_the_same_bits_on_any_number_of_blocks() {
    let device = Device::cpu();
    let len = 39 * 8192 + 17;
    let inp: Vec<f32> = (0..len).map(|i| ((i * 7919 % 1000) as f32 - 500.0) * 0.37).collect();
    let inp = device.upload(&inp).unwrap();
    let by = |blocks: u32| {
        let mut out = device.alloc_zeroed::<f32>(len).unwrap();
        let to = MatrixMut::new(&mut out, 1, len).unwrap();
        let sums = CumulativeSum::new(to, Matrix::new(&inp, 1, len).unwrap());
        sums.run_by(&device, ScanBy::Grid(blocks)).unwrap();
        out.to_vec().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let all = by(40);
    for blocks in [1, 2, 7, 16, 31] {
        assert!(by(blocks) == all, "{blocks} blocks");
    }
}

/// One thread that adds up all would stay at 2^24.
#[test]
fn sums_of_many_ones_are_exact_on_a_cpu() {
    let device = Device::cpu();
    let len = (1 << 24) + 4096;
    let inp = device.upload(&vec![1.0f32; len]).unwrap();
    let mut out = device.alloc_zeroed::<f32>(1).unwrap();
    Reduce::rows(Operation::Sum, &mut out, Matrix::new(&inp, 1, len).unwrap()).run(&device).unwrap();
    assert_eq!(out.to_vec().unwrap(), [len as f32]);
    Reduce::columns(Operation::Sum, &mut out, Matrix::new(&inp, len, 1).unwrap()).run(&device).unwrap();
    assert_eq!(out.to_vec().unwrap(), [len as f32]);
}

#[test]
fn without_elements_results_are_neutral() {
    let device = Device::cpu();
    let empty = device.alloc_zeroed::<bf16>(0).unwrap();
    for (operation, expected) in [
        (Operation::Sum, 0.0),
        (Operation::Mean, f32::NAN),
        (Operation::Max, f32::NEG_INFINITY),
        (Operation::Min, f32::INFINITY),
    ] {
        let mut out = device.upload(&[7.0f32; 3]).unwrap();
        Reduce::rows(operation, &mut out, Matrix::new(&empty, 3, 0).unwrap()).run(&device).unwrap();
        let rows = out.to_vec().unwrap();
        Reduce::columns(operation, &mut out, Matrix::new(&empty, 0, 3).unwrap()).run(&device).unwrap();
        for got in rows.into_iter().chain(out.to_vec().unwrap()) {
            assert!(got == expected || got.is_nan() && expected.is_nan(), "{operation:?}: {got}");
        }
    }
    for (rows, cols) in [(0, 4), (3, 0)] {
        let mut out = device.alloc_zeroed::<bf16>(0).unwrap();
        let inp = Matrix::new(&empty, rows, cols).unwrap();
        CumulativeSum::new(MatrixMut::new(&mut out, rows, cols).unwrap(), inp).run(&device).unwrap();
        Transpose::new(MatrixMut::new(&mut out, cols, rows).unwrap(), inp).run(&device).unwrap();
        if rows == 0 {
            Reduce::rows(Operation::Max, &mut out, inp).run(&device).unwrap();
        } else {
            Reduce::columns(Operation::Max, &mut out, inp).run(&device).unwrap();
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::cpu();
    let inp = device.alloc_zeroed::<f32>(6).unwrap();
    let matrix = Matrix::new(&inp, 2, 3).unwrap();
    let mut out = device.alloc_zeroed::<f32>(6).unwrap();
    let error = Reduce::rows(Operation::Sum, out.view_mut(..3).unwrap(), matrix).run(&device).unwrap_err();
    assert_eq!(error.to_string(), "a reduction failed: the output has 3 elements; pass one of 2");
    let error = Reduce::columns(Operation::Max, out.view_mut(..2).unwrap(), matrix).run(&device).unwrap_err();
    assert_eq!(error.to_string(), "a reduction failed: the output has 2 elements; pass one of 3");
    let to = MatrixMut::new(&mut out, 3, 2).unwrap();
    let error = CumulativeSum::new(to, matrix).run(&device).unwrap_err();
    assert_eq!(error.to_string(), "a cumulative sum failed: the output is 3 x 2; pass one of 2 x 3");
    let to = MatrixMut::new(&mut out, 2, 3).unwrap();
    let error = Transpose::new(to, matrix).run(&device).unwrap_err();
    assert_eq!(error.to_string(), "a transpose failed: the output is 2 x 3; pass one of 3 x 2");
    let empty = device.alloc_zeroed::<f32>(0).unwrap();
    let wide = Matrix::new(&empty, 0, 1 << 31).unwrap();
    let error = Reduce::rows(Operation::Sum, out.view_mut(..0).unwrap(), wide).run(&device).unwrap_err();
    assert!(matches!(error, AxisError::TooLarge { what: "columns", .. }));
    assert_eq!(
        error.to_string(),
        "a reduction with 2147483648 columns failed: at most 2147483647 are possible; split the matrix"
    );
}
