//! Sums, maxima, cumulative sums and transposes: exact and neutral results, and what is refused.

use cuda_std::half::bf16;
use ferrowarp::axis::ScanBy;
use ferrowarp::device::Device;
use ferrowarp::{CumulativeSum, Kind, Reduce, Reduction, Tensor, Transpose};

/// Which block has which tile changes nothing: sums of tiles are added in a fixed order.
#[test]
fn cumulative_sums_have_the_same_bits_on_any_number_of_blocks() {
    let device = Device::cpu();
    let len = 39 * 8192 + 17;
    let inp: Vec<f32> = (0..len).map(|i| ((i * 7919 % 1000) as f32 - 500.0) * 0.37).collect();
    let inp = device.tensor(&inp, [len]).unwrap();
    let by = |by: ScanBy| {
        let mut out = Tensor::<f32>::zeros(&device, [len]).unwrap();
        CumulativeSum::new().run_by(&device, out.view_mut(), inp.view(), Some(by)).unwrap();
        out.to_vec().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let all = by(ScanBy::Grid(40));
    for other in [1, 2, 7, 16, 31].map(ScanBy::Grid).into_iter().chain([ScanBy::Rows]) {
        assert!(by(other) == all, "{other:?}");
    }
}

/// One thread that adds up all would stay at 2^24.
#[test]
fn sums_of_many_ones_are_exact_on_a_cpu() {
    let device = Device::cpu();
    let len = (1 << 24) + 4096;
    let inp = device.tensor(&vec![1.0f32; len], [len, 1]).unwrap();
    let sum = |reduce: Reduce, shape: [usize; 2]| {
        reduce.run(&device, inp.view().reshape(shape).unwrap()).unwrap().to_vec().unwrap()
    };
    assert_eq!(sum(Reduce::rows(Reduction::Sum), [1, len]), [len as f32]);
    assert_eq!(sum(Reduce::columns(Reduction::Sum), [len, 1]), [len as f32]);
}

#[test]
fn without_elements_results_are_neutral() {
    let device = Device::cpu();
    let empty = |shape: [usize; 2]| Tensor::<bf16>::zeros(&device, shape).unwrap();
    for (operation, expected) in [
        (Reduction::Sum, 0.0),
        (Reduction::Mean, f32::NAN),
        (Reduction::Max, f32::NEG_INFINITY),
        (Reduction::Min, f32::INFINITY),
    ] {
        let mut out = device.upload(&[7.0f32; 3]).unwrap();
        Reduce::rows(operation).run_into(&device, &mut out, &empty([3, 0])).unwrap();
        let rows = out.to_vec().unwrap();
        Reduce::columns(operation).run_into(&device, &mut out, &empty([0, 3])).unwrap();
        for got in rows.into_iter().chain(out.to_vec().unwrap()) {
            assert!(got == expected || got.is_nan() && expected.is_nan(), "{operation:?}: {got}");
        }
    }
    for shape @ [rows, cols] in [[0, 4], [3, 0]] {
        let inp = empty(shape);
        assert_eq!(CumulativeSum::new().run(&device, &inp).unwrap().shape().to_vec(), shape);
        assert_eq!(Transpose::new().run(&device, &inp).unwrap().shape().to_vec(), [cols, rows]);
        let reduce = if rows == 0 { Reduce::rows(Reduction::Max) } else { Reduce::columns(Reduction::Max) };
        assert_eq!(reduce.run(&device, &inp).unwrap().shape().elements(), 0);
    }
}

#[test]
fn axes_before_the_last_are_rows() {
    let device = Device::cpu();
    let numbers: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let x = device.tensor(&numbers, [2, 3, 4]).unwrap();
    let sums = Reduce::rows(Reduction::Sum).run(&device, &x).unwrap();
    assert_eq!(sums.shape().to_vec(), [2, 3]);
    assert_eq!(sums.to_vec().unwrap(), [6.0, 22.0, 38.0, 54.0, 70.0, 86.0]);
    let sums = Reduce::columns(Reduction::Sum).run(&device, x.view().slice(0, 1..).unwrap()).unwrap();
    assert_eq!(sums.to_vec().unwrap(), [48.0, 51.0, 54.0, 57.0]);
    let error = Reduce::rows(Reduction::Sum).run(&device, x.view().slice(1, ..2).unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("it needs rows along the last axis without gaps, at equal distances"),
        "{error}"
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::cpu();
    let inp = Tensor::<f32>::zeros(&device, [2, 3]).unwrap();
    let mut out = device.alloc_zeroed::<f32>(6).unwrap();
    let error = Reduce::rows(Reduction::Sum).run_into(&device, out.view_mut(..3).unwrap(), &inp).unwrap_err();
    assert_eq!(error.to_string(), "a reduction failed: the output has the shape [3]; it needs [2]");
    let error =
        Reduce::columns(Reduction::Max).run_into(&device, out.view_mut(..2).unwrap(), &inp).unwrap_err();
    assert_eq!(error.to_string(), "a reduction failed: the output has the shape [2]; it needs [3]");
    let error = CumulativeSum::new().run_into(&device, &mut out, &inp).unwrap_err();
    assert_eq!(error.to_string(), "a cumulative sum failed: the output has the shape [6]; it needs [2, 3]");
    let mut same = Tensor::<f32>::zeros(&device, [2, 3]).unwrap();
    let error = Transpose::new().run_into(&device, &mut same, &inp).unwrap_err();
    assert_eq!(error.to_string(), "a transpose failed: the output has the shape [2, 3]; it needs [3, 2]");
    let error = Transpose::new().run(&device, &out).unwrap_err();
    assert_eq!(error.to_string(), "a transpose failed: the input has the shape [6]; it needs two axes");
    let wide = Tensor::<f32>::zeros(&device, [0, 1 << 31]).unwrap();
    let error = Reduce::rows(Reduction::Sum).run(&device, &wide).unwrap_err();
    assert!(matches!(error.kind(), Kind::TooLarge { what: "columns", .. }));
    assert_eq!(
        error.to_string(),
        "a reduction failed: 2147483648 columns are too many; at most 2147483647 are possible, so split the problem"
    );
}
