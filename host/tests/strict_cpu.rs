//! The CPU device refuses what a GPU refuses, such as memory of another device, and records what a GPU records.

use std::fmt::Debug;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::half::bf16;
use cuda_std::launch::LaunchConfig;
use cuda_std::tensor::TensorMapSpec;
use ferrowarp::attention::Attention;
use ferrowarp::device::{Buffer, Device, DeviceError, Stream};
use ferrowarp::{CumulativeSum, Matmul, Norm, Reduce, Reduction, Softmax, TensorView, TensorViewMut};

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

    let errors = [
        Softmax::new().run_into(&device, &mut out, &others).unwrap_err().to_string(),
        Norm::rms()
            .run_into(
                &device,
                TensorViewMut::new(&mut out, [1, 4]).unwrap(),
                TensorView::new(&others, [1, 4]).unwrap(),
            )
            .unwrap_err()
            .to_string(),
        Reduce::columns(Reduction::Sum)
            .run_into(&device, &mut out, TensorView::new(&others, [1, 4]).unwrap())
            .unwrap_err()
            .to_string(),
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

/// Records a call that writes one buffer and needs scratch memory, and compares the results of two launches with that of the call
/// itself.
fn check<T: Pod + PartialEq + Debug>(
    what: &str,
    device: &Device,
    out: Buffer<T>,
    run: impl Fn(&Stream, &mut Buffer<T>) -> Result<(), DeviceError> + Send + Sync + 'static,
) {
    let (run, mut alone) = (Arc::new(run), device.alloc_zeroed::<T>(out.len()).unwrap());
    run(&device.stream().unwrap(), &mut alone).unwrap();
    let mut graph = device.record(out, move |stream, out: &mut Buffer<T>| run(stream, out)).unwrap();
    for _ in 0..2 {
        graph.launch().unwrap();
        assert_eq!(graph.state().to_vec().unwrap(), alone.to_vec().unwrap(), "{what}");
    }
}

#[test]
fn operations_that_need_scratch_memory_are_recorded() {
    let device = Device::cpu();
    let numbers = |len: usize| (0..len).map(|i| (i * 7 % 13) as f32 - 6.0).collect::<Vec<f32>>();
    let of = |len: usize| device.upload(&numbers(len)).unwrap();
    let halves = |len: usize| {
        device.upload(&numbers(len).into_iter().map(bf16::from_f32).collect::<Vec<_>>()).unwrap()
    };
    let zeros = |len: usize| device.alloc_zeroed::<f32>(len).unwrap();

    let a = of(1 << 16);
    check("a matmul", &device, zeros(1 << 12), move |stream, out| {
        let matrix = |rows, cols| TensorView::new(&a, [rows, cols]);
        let out = TensorViewMut::new(out, [64, 64])?;
        Ok(Matmul::new().run_into(stream, out, matrix(64, 1024)?, matrix(1024, 64)?)?)
    });
    let (q, k) = (halves(64), halves(1 << 20));
    check("an attention", &device, device.alloc_zeroed::<bf16>(64).unwrap(), move |stream, out| {
        let (q, k) = (TensorView::new(&q, [1, 1, 1, 64])?, TensorView::new(&k, [1, 1 << 14, 1, 64])?);
        Ok(Attention::new().run_into(stream, TensorViewMut::new(out, [1, 1, 1, 64])?, q, k, k)?)
    });
    let inp = of(1 << 20);
    check("a sum", &device, zeros(1), move |stream, out| {
        Ok(Reduce::rows(Reduction::Sum).run_into(stream, out, &inp)?)
    });
    let inp = of(1 << 17);
    check("a cumulative sum", &device, zeros(1 << 17), move |stream, out| {
        Ok(CumulativeSum::new().run_into(stream, out, &inp)?)
    });
    let inp = of(1 << 21);
    check("a softmax of a softmax", &device, zeros(1 << 21), move |stream, out| {
        let first = Softmax::new().log().run(stream, &inp)?;
        Ok(Softmax::new().run_into(stream, out, &first)?)
    });
}
