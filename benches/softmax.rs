//! Times the rungs of the softmax ladder: `cargo bench softmax`.
//!
//! Ids are `softmax/<rung>/<dtype>/<rows>x<cols>`; the throughput counts one read and one write of every
//! element, however often a rung reads it. The output is checked before it is timed. The buffers of one shape stay the same over all launches,
//! so what fits a cache is timed from that cache.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ferrowarp::device::{Buffer, Device};
use ferrowarp::reference;
use ferrowarp_benches::{Shape, device_and_shapes};
use gpu_kernels::softmax::{LADDER, Prepared};

fn softmax(criterion: &mut Criterion) {
    let (device, shapes) = device_and_shapes().unwrap_or_else(|error| panic!("cannot bench: {error}"));
    let mut group = criterion.benchmark_group("softmax");
    for &Shape { rows, cols } in shapes {
        let logits: Vec<f32> = (0..rows * cols).map(|i| (i as f32 * 0.618).fract() * 20.0 - 10.0).collect();
        let inp = device.upload(&logits).expect("memory for the logits");
        let mut out = device.alloc_zeroed::<f32>(rows * cols).expect("memory for the probabilities");
        group.throughput(Throughput::Bytes(2 * (rows * cols * size_of::<f32>()) as u64));
        for rung in LADDER {
            let Some(kernel) = rung.prepare(rows, cols) else { continue };
            out.copy_from(&vec![f32::NAN; rows * cols]).expect("an output that nobody wrote");
            launch(&device, &kernel, &mut out, &inp);
            check(&out.to_vec().expect("the probabilities"), &logits, cols);
            let id = BenchmarkId::new(format!("{}/f32", rung.name), format!("{rows}x{cols}"));
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|launches| {
                    time(&device, || (0..launches).for_each(|_| launch(&device, &kernel, &mut out, &inp)))
                });
            });
        }
    }
    group.finish();
}

fn launch(device: &Device, kernel: &Prepared, out: &mut Buffer<f32>, inp: &Buffer<f32>) {
    // SAFETY: the buffers are two, and of the shape that the kernel was prepared for.
    unsafe { kernel.launch(device, out, inp) }.expect("a launch");
}

fn check(probabilities: &[f32], logits: &[f32], cols: usize) {
    for (i, (&got, want)) in probabilities.iter().zip(reference::softmax(logits, cols)).enumerate() {
        let error = (f64::from(got) - want).abs();
        assert!(error <= 1e-5 * want, "element {i} is {got}, expected {want}");
    }
}

/// Wall time of `work` on an idle device, with one synchronisation at the end.
fn time(device: &Device, work: impl FnOnce()) -> Duration {
    device.synchronize().expect("an idle device");
    let start = Instant::now();
    work();
    device.synchronize().expect("the launches to end well");
    start.elapsed()
}

criterion_group!(benches, softmax);
criterion_main!(benches);
