//! The CPU device refuses what a GPU refuses: memory of another device, and recordings that would allocate.

use std::sync::{Arc, Mutex};

use cuda_std::half::bf16;
use cuda_std::launch::LaunchConfig;
use cuda_std::tensor::TensorMapSpec;
use ferrowarp::attention::{self, Attention, Backward, Forward, Gradients, Tensor, TensorMut};
use ferrowarp::axis::{self, CumulativeSum, Operation, Reduce};
use ferrowarp::device::{Buffer, Device, DeviceError, Stream};
use ferrowarp::matmul::{self, Matmul};
use ferrowarp::norm::Norm;
use ferrowarp::softmax::{Matrix, MatrixMut, Options, Plan, softmax};

use crate::device_cpu::axpy;

#[test]
fn a_buffer_of_another_cpu_device_is_refused() {
    let (device, other) = (Device::cpu(), Device::cpu());
    let (mut out, mut others) =
        (device.alloc_zeroed::<f32>(4).unwrap(), other.alloc_zeroed::<f32>(4).unwrap());
    let config = LaunchConfig::new(1, 32);
    // SAFETY: as many elements in both, and enough threads.
    let launched =
        unsafe { axpy::launch(&device, config, 2.0, others.view(1..).unwrap(), out.view_mut(1..).unwrap()) };
    let text = launched.unwrap_err().to_string();
    assert!(
        text.contains("launch of axpy on Device(")
            && text.contains("the buffer `x` belongs to another `Device`"),
        "{text}"
    );
    // SAFETY: as above.
    unsafe { axpy::launch(&other, config, 2.0, &[1.0f32; 4], &mut others) }.unwrap();

    let spec = TensorMapSpec::new::<f32>([4, 1], [4, 1]);
    let text = device.tensor_map(&others, &spec).unwrap_err().to_string();
    assert!(text.contains("belongs to another `Device`, in the memory of "), "{text}");
    device.tensor_map(&out, &spec).unwrap();

    let inp = Matrix::new(&others, 1, 4).unwrap();
    let options = Options::new();
    let errors = [
        softmax(&device, &mut MatrixMut::new(&mut out, 1, 4).unwrap(), &inp, &options)
            .unwrap_err()
            .to_string(),
        Norm::rms(MatrixMut::new(&mut out, 1, 4).unwrap(), inp).run(&device).unwrap_err().to_string(),
        Reduce::<f32>::columns(Operation::Sum, &mut out, inp).run(&device).unwrap_err().to_string(),
    ];
    for text in errors {
        assert!(text.contains("to another `Device`"), "{text}");
    }
}

#[test]
fn an_event_of_another_device_is_told_apart() {
    let (device, other) = (Device::cpu(), Device::cpu());
    let event = other.stream().unwrap().record().unwrap();
    let text = device.stream().unwrap().wait(&event).unwrap_err().to_string();
    let end = "failed: it belongs to the same device opened a second time; use one `Device` for both, or clones of it";
    assert!(text.starts_with("waiting for an event on Device(") && text.ends_with(end), "{text}");
}

/// Records `run` on the CPU, and gives its error.
fn recorded<S: Send + 'static, E: Into<DeviceError>>(
    device: &Device,
    state: S,
    run: impl Fn(&Device, &mut S) -> Result<(), E> + Send + Sync + 'static,
) -> Result<(), String> {
    let on = device.clone();
    let graph = device.record(state, move |_: &Stream, state: &mut S| run(&on, state));
    graph.and_then(|mut graph| graph.launch()).map_err(|error| error.to_string())
}

/// Records a call with a workspace that is new, and with one that was used before.
fn check<W: Default + Send + 'static>(
    what: &str,
    device: &Device,
    run: impl Fn(&Device, &mut W) -> Result<(), DeviceError> + Send + Sync + 'static,
) {
    let run = Arc::new(run);
    let again = Arc::clone(&run);
    let text = recorded(device, W::default(), move |device, workspace| again(device, workspace)).unwrap_err();
    assert!(text.starts_with("allocating a buffer failed while work on"), "{what}: {text}");
    let mut used = W::default();
    run(device, &mut used).unwrap();
    let used = recorded(device, used, move |device, workspace| run(device, workspace));
    used.unwrap_or_else(|text| panic!("{what}: {text}"));
}

#[test]
fn a_recording_with_a_new_workspace_is_refused() {
    let device = Device::cpu();
    let zeros = |len| device.alloc_zeroed::<f32>(len).unwrap();
    let halves = |len| device.alloc_zeroed::<bf16>(len).unwrap();

    let (a, out) = (zeros(1 << 16), Mutex::new(zeros(1 << 12)));
    check("a matmul", &device, move |device, workspace: &mut matmul::Workspace| {
        let (mut out, matrix) = (out.lock().unwrap(), |rows, cols| matmul::Matrix::new(&a, rows, cols));
        let out = matmul::MatrixMut::new(&mut *out, 64, 64)?;
        Ok(Matmul::new(out, matrix(64, 1024)?, matrix(1024, 64)?).run_with(device, workspace)?)
    });
    let (q, k, out) = (halves(64), halves(1 << 20), Mutex::new(halves(64)));
    check("an attention", &device, move |device, workspace: &mut attention::Workspace| {
        let (q, k) = (Tensor::new(&q, [1, 1, 1, 64])?, Tensor::new(&k, [1, 1 << 14, 1, 64])?);
        let mut out = out.lock().unwrap();
        Ok(Attention::new(TensorMut::new(&mut *out, [1, 1, 1, 64])?, q, k, k).run_with(device, workspace)?)
    });
    let (inp, out) = (zeros(1 << 20), Mutex::new(zeros(1)));
    check("a sum", &device, move |device, workspace: &mut axis::Workspace| {
        let (mut out, inp) = (out.lock().unwrap(), Matrix::new(&inp, 1, 1 << 20)?);
        Ok(Reduce::<f32>::rows(Operation::Sum, &mut *out, inp).run_with(device, workspace)?)
    });
    let (inp, out) = (zeros(1 << 17), Mutex::new(zeros(1 << 17)));
    check("a cumulative sum", &device, move |device, workspace: &mut axis::Workspace| {
        let (mut out, inp) = (out.lock().unwrap(), Matrix::new(&inp, 1, 1 << 17)?);
        Ok(CumulativeSum::new(MatrixMut::new(&mut *out, 1, 1 << 17)?, inp).run_with(device, workspace)?)
    });
}

#[test]
fn a_recorded_softmax_of_few_wide_rows_needs_a_plan() {
    let device = Device::cpu();
    let wide = |rows: usize, cols: usize| {
        let buffers = [0; 2].map(|_| device.alloc_zeroed::<f32>(rows * cols).unwrap());
        recorded(&device, buffers, move |device, [out, inp]: &mut [Buffer<f32>; 2]| {
            softmax(
                device,
                &mut MatrixMut::new(out, rows, cols)?,
                &Matrix::new(&*inp, rows, cols)?,
                &Options::new(),
            )
        })
    };
    assert_eq!(wide(1024, 64), Ok(()), "no kernel for it needs memory");
    let text = wide(1, 1 << 21).unwrap_err();
    assert!(text.starts_with("allocating a buffer failed while work on"), "{text}");
    let plan = Plan::<f32>::new(&device, 1, 1 << 21, &Options::new()).unwrap();
    let out = device.alloc_zeroed::<f32>(1 << 21).unwrap();
    let in_place = recorded(&device, (plan, out), |_, (plan, out): &mut (Plan<f32>, Buffer<f32>)| {
        plan.run_in_place(&mut MatrixMut::new(out, 1, 1 << 21)?)
    });
    assert_eq!(in_place, Ok(()));
}

#[test]
fn gradients_that_a_gpu_cannot_copy_are_refused() {
    let device = Device::cpu();
    let zeros = device.alloc_zeroed::<bf16>(1 << 12).unwrap();
    let log_sum_exp = device.alloc_zeroed::<f32>(2).unwrap();
    let error = |first: usize, head_size: usize| {
        let shape = [1, 2, 1, head_size];
        let [mut q, mut k, mut v] = [0; 3].map(|_| device.alloc_zeroed::<bf16>(1 << 12).unwrap());
        let gradients = Gradients {
            q: TensorMut::new(&mut q, shape).unwrap(),
            k: TensorMut::new(&mut k, shape).unwrap(),
            v: TensorMut::new(&mut v, shape).unwrap(),
        };
        let tensor = Tensor::new(zeros.view(first..).unwrap(), shape).unwrap();
        let forward =
            Forward { q: tensor, k: tensor, v: tensor, out: tensor, log_sum_exp: (&log_sum_exp).into() };
        let run = Backward::new(gradients, tensor, forward).run(&device);
        run.map_err(|error| error.to_string())
    };
    assert_eq!(error(8, 64), Ok(()));
    assert!(error(1, 64).unwrap_err().contains("the query tensor"), "{error:?}", error = error(1, 64));
    assert!(error(0, 60).is_err(), "rows of 120 bytes");
    let text = error(0, 136).unwrap_err();
    assert!(text.contains("head size of 136") && text.contains("1 to 128"), "{text}");
}
