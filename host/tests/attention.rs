//! Attention against its f64 oracle, on the CPU executor and as PTX on the emulator.

use cuda_std::half::bf16;
use cuda_std::launch::Limits;
use cuda_std::simt::Executor;
use ferrowarp::attention::{Attention, Backward, Causal, Forward, Gradients, Tensor, TensorMut, run_rung};
use ferrowarp::device::Device;
use ferrowarp_cases::attention::cases;
use ferrowarp_cases::softmax::Setting;
use ferrowarp_cases::{Case, Scope, assert_right, assert_right_under_shuffled_schedules, emulated};
use gpu_kernels::ladders::attention::RUNGS;

#[test]
fn on_the_executor() {
    assert_right(&cases(&Setting::new(Scope::Executor)), &Device::cpu(), Case::assess);
}

#[test]
fn under_shuffled_schedules() {
    assert_right_under_shuffled_schedules(cases);
}

#[test]
fn as_ptx() {
    for device in emulated::newer_by_each() {
        assert_right(&cases(&Setting::new(Scope::NewEmulator)), &device, Case::assess);
    }
}

/// Runs attention of zeros, and gives the text of its error.
fn error_of(q: [usize; 4], k: [usize; 4], scale: f32, logs: usize) -> String {
    let device = Device::cpu();
    let zeros = device.alloc_zeroed::<bf16>(1 << 16).unwrap();
    let mut out = device.alloc_zeroed::<bf16>(1 << 16).unwrap();
    let mut log_sum_exp = device.alloc_zeroed::<f32>(logs).unwrap();
    let tensor = |shape| Tensor::new(&zeros, shape).unwrap();
    let call = Attention::new(TensorMut::new(&mut out, q).unwrap(), tensor(q), tensor(k), tensor(k));
    call.scale(scale).log_sum_exp(&mut log_sum_exp).run(&device).unwrap_err().to_string()
}

#[test]
fn errors_name_the_value_and_the_fix() {
    let error = error_of([2, 3, 4, 8], [2, 5, 3, 8], 1.0, 24);
    assert!(error.contains("4 query heads and 3 key heads") && error.contains("multiple"), "{error}");
    let error = error_of([2, 3, 4, 8], [2, 5, 4, 8], 0.0, 24);
    assert!(error.contains("scale of 0e0") && error.contains("greater than 0"), "{error}");
    let error = error_of([2, 3, 4, 8], [2, 5, 4, 8], 1.0, 23);
    assert!(error.contains("log-sum-exp of 23 elements") && error.contains("pass 24"), "{error}");
    let error = error_of([2, 3, 4, 8], [1, 5, 4, 8], 1.0, 24);
    assert!(
        error.contains("key tensor has the shape [1, 5, 4, 8]") && error.contains("[2, 5, 4, 8]"),
        "{error}"
    );
    let error = error_of([1, 2, 1, 300], [1, 2, 1, 300], 1.0, 2);
    assert!(error.contains("head size of 300") && error.contains("1 to 256"), "{error}");
}

#[test]
fn errors_of_windows_name_the_fix() {
    let device = Device::cpu();
    let zeros = device.alloc_zeroed::<bf16>(8).unwrap();
    let error = |causal: Option<Causal>, window: usize| {
        let mut out = device.alloc_zeroed::<bf16>(8).unwrap();
        let of = Tensor::new(&zeros, [1, 1, 1, 8]).unwrap();
        let call = Attention::new(TensorMut::new(&mut out, [1, 1, 1, 8]).unwrap(), of, of, of);
        let call = if let Some(causal) = causal { call.causal(causal) } else { call };
        call.sliding_window(window).run(&device).unwrap_err().to_string()
    };
    let text = error(Some(Causal::TopLeft), 0);
    assert!(text.contains("sliding window of 0 keys") && text.contains("pass 1 or more"), "{text}");
    let text = error(None, 5);
    assert!(text.contains("sliding window of 5 keys") && text.contains("call `causal`"), "{text}");
}

#[test]
fn errors_of_pages_name_the_value_and_the_fix() {
    let device = Device::cpu();
    let zeros = device.alloc_zeroed::<bf16>(1 << 12).unwrap();
    let indices = device.alloc_zeroed::<u32>(5).unwrap();
    let error = |k: [usize; 4], pages: Option<usize>, lengths: Option<usize>| {
        let mut out = device.alloc_zeroed::<bf16>(2 * 8).unwrap();
        let (q, k) = (Tensor::new(&zeros, [2, 1, 1, 8]).unwrap(), Tensor::new(&zeros, k).unwrap());
        let mut call = Attention::new(TensorMut::new(&mut out, [2, 1, 1, 8]).unwrap(), q, k, k);
        if let Some(pages) = pages {
            call = call.pages(indices.view(..pages).unwrap());
        }
        if let Some(lengths) = lengths {
            call = call.lengths(indices.view(..lengths).unwrap());
        }
        call.run(&device).unwrap_err().to_string()
    };
    let text = error([7, 16, 1, 8], Some(3), None);
    assert!(text.contains("page table of 3 pages") && text.contains("batch of 2"), "{text}");
    let text = error([7, 24, 1, 8], Some(4), None);
    assert!(text.contains("pages of 24 positions") && text.contains("multiple of 16"), "{text}");
    let text = error([2, 24, 1, 8], None, Some(5));
    assert!(text.contains("with 5 lengths") && text.contains("pass 2"), "{text}");
}

/// A tensor copy would overwrite what follows the rows.
#[test]
fn gradients_of_rows_that_end_within_16_bytes_are_refused() {
    let limits = Limits { capability: 90, runs_cpu_only: false, ..Limits::default() };
    let error = |device: &Device, head_size: usize| {
        let zeros = device.alloc_zeroed::<bf16>(64).unwrap();
        let logs = device.alloc_zeroed::<f32>(1).unwrap();
        let mut gradients = [0; 3].map(|_| device.alloc_zeroed::<bf16>(64).unwrap());
        let [q, k, v] = gradients.each_mut().map(|it| TensorMut::new(it, [1, 1, 1, head_size]).unwrap());
        let of = Tensor::new(&zeros, [1, 1, 1, head_size]).unwrap();
        let forward = Forward { q: of, k: of, v: of, out: of, log_sum_exp: (&logs).into() };
        Backward::new(Gradients { q, k, v }, of, forward).run(device).map_err(|error| error.to_string())
    };
    let gpu = Device::cpu_with(Executor::new().with_limits(limits));
    for device in [gpu, Device::cpu()] {
        let text = error(&device, 12).unwrap_err();
        assert!(text.contains("head size of 12") && text.contains("a multiple of 8"), "{text}");
        assert_eq!(error(&device, 16), Ok(()));
    }
}

#[test]
fn a_rung_names_what_does_not_fit() {
    let device = Device::cpu();
    let zeros = device.alloc_zeroed::<bf16>(1 << 16).unwrap();
    let error = |q: [usize; 4], k: [usize; 4]| {
        let mut out = device.alloc_zeroed::<bf16>(1 << 16).unwrap();
        let (to, q) = (TensorMut::new(&mut out, q).unwrap(), Tensor::new(&zeros, q).unwrap());
        let k = Tensor::new(&zeros, k).unwrap();
        let rung = &RUNGS[RUNGS.len() - 1];
        run_rung(&device, rung, to, [q, k, k]).unwrap_err().to_string()
    };
    let text = error([1, 100, 2, 128], [1, 128, 2, 128]);
    assert!(text.contains("100 queries") && text.contains("multiple of 128"), "{text}");
    let text = error([1, 128, 2, 128], [1, 200, 2, 128]);
    assert!(text.contains("200 keys") && text.contains("multiple of 128"), "{text}");
    let text = error([1, 128, 2, 64], [1, 128, 2, 64]);
    assert!(text.contains("query tensor has the shape [1, 128, 2, 64]"), "{text}");
}

#[test]
fn pages_that_are_not_there_count_as_the_last_one() {
    let device = Device::cpu();
    let (q, k) = (device.alloc_zeroed::<bf16>(8).unwrap(), device.alloc_zeroed::<bf16>(2 * 16 * 8).unwrap());
    let v = [[bf16::ZERO; 16 * 8], [bf16::ONE; 16 * 8]].concat();
    let (v, table) = (device.upload(&v).unwrap(), device.upload(&[u32::MAX]).unwrap());
    let mut out = device.alloc_zeroed::<bf16>(8).unwrap();
    let (shape, of_pages) = ([1, 1, 1, 8], [2, 16, 1, 8]);
    let (q, k) = (Tensor::new(&q, shape).unwrap(), Tensor::new(&k, of_pages).unwrap());
    let (to, v) = (TensorMut::new(&mut out, shape).unwrap(), Tensor::new(&v, of_pages).unwrap());
    Attention::new(to, q, k, v).pages(&table).run(&device).unwrap();
    assert_eq!(out.to_vec().unwrap(), [bf16::ONE; 8]);
}
