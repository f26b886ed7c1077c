//! Attention: what is refused, and how operands may be stored.

use cuda_std::half::bf16;
use cuda_std::launch::Limits;
use cuda_std::simt::Executor;
use ferrowarp::attention::{Attention, Causal, Outputs, run_rung};
use ferrowarp::device::Device;
use ferrowarp::{Error, Tensor, TensorView};
use gpu_kernels::ladders::attention::RUNGS;

fn zeros(device: &Device, shape: [usize; 4]) -> Tensor<bf16> {
    Tensor::zeros(device, shape).unwrap()
}

/// Runs attention of zeros, and gives the text of its error.
fn error_of(q: [usize; 4], k: [usize; 4], scale: f32, logs: [usize; 3]) -> String {
    let device = Device::cpu();
    let (mut out, mut log_sum_exp) = (zeros(&device, q), Tensor::zeros(&device, logs).unwrap());
    let (q, k) = (zeros(&device, q), zeros(&device, k));
    let to = Outputs::new(&mut out).log_sum_exp(&mut log_sum_exp);
    Attention::new().scale(scale).run_into(&device, to, &q, &k, &k).unwrap_err().to_string()
}

#[test]
fn errors_name_the_value_and_the_fix() {
    let logs = [2, 4, 3];
    let error = error_of([2, 3, 4, 8], [2, 5, 3, 8], 1.0, logs);
    assert!(error.contains("4 query heads and 3 key heads") && error.contains("multiple"), "{error}");
    let error = error_of([2, 3, 4, 8], [2, 5, 4, 8], 0.0, logs);
    assert!(error.contains("scale of 0") && error.contains("greater than 0"), "{error}");
    let error = error_of([2, 3, 4, 8], [2, 5, 4, 8], 1.0, [2, 3, 4]);
    assert!(error.ends_with("the log-sum-exp has the shape [2, 3, 4]; it needs [2, 4, 3]"), "{error}");
    let error = error_of([2, 3, 4, 8], [1, 5, 4, 8], 1.0, logs);
    assert!(
        error.contains("key tensor has the shape [1, 5, 4, 8]") && error.contains("[2, 5, 4, 8]"),
        "{error}"
    );
    let error = error_of([1, 2, 1, 300], [1, 2, 1, 300], 1.0, [1, 1, 2]);
    assert!(error.contains("head size of 300") && error.contains("1 to 256"), "{error}");
}

#[test]
fn errors_of_operands_name_them() {
    let device = Device::cpu();
    let (x, other) = (zeros(&device, [1, 2, 1, 8]), zeros(&Device::cpu(), [1, 2, 1, 8]));
    let error = |q: TensorView<'_, bf16>, v: TensorView<'_, bf16>| {
        let error = Attention::new().run(&device, q, &x, v).unwrap_err();
        assert_eq!(error.operation(), Some("attention"));
        (error.operand(), error.to_string())
    };
    let (operand, text) = error(x.view(), other.view());
    assert!(operand == Some("value tensor") && text.contains("another `Device`"), "{text}");
    let (operand, text) = error(x.view().reshape([2, 8]).unwrap(), x.view());
    assert!(operand == Some("query tensor") && text.contains("needs 4 axes"), "{text}");
    let gaps = zeros(&device, [1, 2, 8, 2]);
    let (operand, text) = error(x.view(), gaps.t().slice(2, 1..).unwrap());
    assert!(operand == Some("value tensor") && text.contains("no gaps along the last axis"), "{text}");
}

#[test]
fn errors_of_windows_name_the_fix() {
    let device = Device::cpu();
    let x = zeros(&device, [1, 1, 1, 8]);
    let error = |call: Attention<'_>| call.run(&device, &x, &x, &x).unwrap_err().to_string();
    let text = error(Attention::new().causal(Causal::TopLeft).sliding_window(0));
    assert!(text.contains("sliding window of 0 keys") && text.contains("pass 1 or more"), "{text}");
    let text = error(Attention::new().sliding_window(5));
    assert!(text.contains("sliding window of 5 keys") && text.contains("call `causal`"), "{text}");
}

#[test]
fn errors_of_pages_name_the_value_and_the_fix() {
    let device = Device::cpu();
    let indices = device.alloc_zeroed::<u32>(5).unwrap();
    let table = |shape: [usize; 2]| TensorView::new(&indices, shape).unwrap();
    let (q, logs) = (zeros(&device, [2, 1, 1, 8]), Tensor::<f32>::zeros(&device, [2, 1, 1]).unwrap());
    let error = |k: [usize; 4], call: Attention<'_>| {
        let k = zeros(&device, k);
        let forward = call.run(&device, &q, &k, &k).map(drop);
        let backward = call.backward(&device, &q, &q, &k, &k, (&q, &logs)).map(drop);
        assert!(backward.unwrap_err().to_string().contains("gradients need whole tensors"));
        forward.unwrap_err().to_string()
    };
    let text = error([7, 16, 1, 8], Attention::new().pages(table([3, 1])));
    assert!(text.ends_with("the page table has the shape [3, 1]; it needs [2, 1]"), "{text}");
    let text = error([7, 16, 1, 8], Attention::new().pages(&indices));
    assert!(text.contains("the page table has the shape [5]; it needs 2 axes"), "{text}");
    let text = error([7, 24, 1, 8], Attention::new().pages(table([2, 2])));
    assert!(text.contains("pages of 24 positions") && text.contains("multiple of 16"), "{text}");
    let text = error([2, 24, 1, 8], Attention::new().lengths(&indices));
    assert!(text.ends_with("the tensor of lengths has the shape [5]; it needs [2]"), "{text}");
}

#[test]
fn gradients_need_a_gpu_from_8_0_on_and_at_most_256_elements() {
    let of_batch = |batch: usize, capability: u32, head_size: usize| {
        let limits = Limits { capability, runs_cpu_only: false, ..Limits::default() };
        let device = Device::cpu_with(Executor::new().with_limits(limits));
        let x = zeros(&device, [batch, 1, 1, head_size]);
        let logs = Tensor::<f32>::zeros(&device, [batch, 1, 1]).unwrap();
        let gradients = Attention::new().backward(&device, &x, &x, &x, &x, (&x, &logs));
        gradients.map(drop).map_err(|error| error.to_string())
    };
    let error = |capability: u32, head_size: usize| of_batch(1, capability, head_size);
    for head_size in [1, 12, 16, 200] {
        assert_eq!(of_batch(0, 80, head_size), Ok(()), "an empty batch");
        assert_eq!(error(80, head_size), Ok(()));
        assert_eq!(error(90, head_size), Ok(()));
        assert_eq!(error(120, head_size), Ok(()));
    }
    let text = error(75, 16).unwrap_err();
    assert!(text.contains("compute capability 7.5") && text.contains("need 8.0 or later"), "{text}");
    let text = error(90, 257).unwrap_err();
    assert!(text.contains("head size of 257") && text.contains("1 to 256"), "{text}");
}

#[test]
fn a_rung_names_what_does_not_fit() {
    let device = Device::cpu();
    let error = |q: [usize; 4], k: [usize; 4]| {
        let (mut out, q, k) = (zeros(&device, q), zeros(&device, q), zeros(&device, k));
        let rung = &RUNGS[RUNGS.len() - 1];
        run_rung(&device, rung, out.view_mut(), [q.view(), k.view(), k.view()]).unwrap_err().to_string()
    };
    let text = error([1, 100, 2, 128], [1, 128, 2, 128]);
    assert!(text.contains("100 queries") && text.contains("multiple of 128"), "{text}");
    let text = error([1, 128, 2, 128], [1, 200, 2, 128]);
    assert!(text.contains("200 keys") && text.contains("multiple of 128"), "{text}");
    let text = error([1, 128, 2, 64], [1, 128, 2, 64]);
    assert!(text.contains("query tensor has the shape [1, 128, 2, 64]"), "{text}");
}

#[test]
fn pages_that_are_not_there_count_as_the_last_one() -> Result<(), Error> {
    let device = Device::cpu();
    let (q, k) = (zeros(&device, [1, 1, 1, 8]), zeros(&device, [2, 16, 1, 8]));
    let v = [[bf16::ZERO; 16 * 8], [bf16::ONE; 16 * 8]].concat();
    let (v, table) = (device.tensor(&v, [2, 16, 1, 8])?, device.tensor(&[u32::MAX], [1, 1])?);
    let out = Attention::new().pages(&table).run(&device, &q, &k, &v)?;
    assert_eq!(out.to_vec()?, [bf16::ONE; 8]);
    Ok(())
}

#[test]
fn operands_may_be_repeated_and_permuted() -> Result<(), Error> {
    let device = Device::cpu();
    let numbers =
        |len: usize| (0..len).map(|i| bf16::from_f32((i * 7 % 13) as f32 - 6.0)).collect::<Vec<_>>();
    // The keys are the same for the whole batch, and the queries have the heads in front of the positions.
    let (q, k) = (device.tensor(&numbers(48), [2, 3, 1, 8])?, device.tensor(&numbers(32), [4, 1, 8])?);
    let (q, k) = (q.view().swap_axes(1, 2)?, k.view().broadcast([2, 4, 1, 8])?);
    let (q_copy, k_copy) =
        (device.tensor(&q.to_vec()?, [2, 1, 3, 8])?, device.tensor(&k.to_vec()?, [2, 4, 1, 8])?);
    let [got, want] = [[q, k], [q_copy.view(), k_copy.view()]]
        .map(|[q, k]| Attention::new().run(&device, q, k, k).unwrap().to_vec().unwrap());
    assert_eq!(got, want);
    Ok(())
}
