//! Times the softmax kernels: `cargo bench softmax`.
//!
//! Ids are `softmax/<kernel>/<dtype>/<rows>x<cols>`; the throughput counts one read and one write of every
//! element. The output is checked before it is timed. The buffers of one shape stay the same over all launches,
//! so what fits a cache is timed from that cache.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use cuda_std::launch::LaunchConfig;
use ferrowarp::device::{Buffer, Device};
use ferrowarp::reference;
use ferrowarp_benches::{Shape, device_and_shapes};
use gpu_kernels::mlp::loss::softmax_naive;

fn softmax(criterion: &mut Criterion) {
    let (device, shapes) = device_and_shapes().unwrap_or_else(|error| panic!("cannot bench: {error}"));
    let mut group = criterion.benchmark_group("softmax");
    for &Shape { rows, cols } in shapes {
        let logits: Vec<f32> = (0..rows * cols).map(|i| (i as f32 * 0.618).fract() * 20.0 - 10.0).collect();
        let inp = device.upload(&logits).expect("memory for the logits");
        let mut out = device.alloc_zeroed::<f32>(rows * cols).expect("memory for the probabilities");
        launch(&device, &mut out, &inp, rows, cols);
        check(&out.to_vec().expect("the probabilities"), &logits, cols);

        group.throughput(Throughput::Bytes(2 * (rows * cols * size_of::<f32>()) as u64));
        let id = BenchmarkId::new("softmax_naive/f32", format!("{rows}x{cols}"));
        group.bench_function(id, |bencher| {
            bencher.iter_custom(|launches| {
                time(&device, || (0..launches).for_each(|_| launch(&device, &mut out, &inp, rows, cols)))
            });
        });
    }
    group.finish();
}

fn launch(device: &Device, out: &mut Buffer<f32>, inp: &Buffer<f32>, rows: usize, cols: usize) {
    let config = LaunchConfig::new((cols.div_ceil(32) as u32, rows.div_ceil(8) as u32), (32, 8));
    // SAFETY: both buffers hold rows * cols elements, and the grid covers them.
    unsafe { softmax_naive::launch(device, config, out, inp, rows as u32, cols as u32) }.expect("a launch");
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
