//! Every operation launches only kernels that the loaded PTX has, whatever architectures the PTX and the GPU have.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{KernelCall, KernelMeta, LaunchError, Launcher, Limits};
use ferrowarp::DeviceProfile;
use ferrowarp::attention::{Attention, Causal, Element16, GradientOutputs as AttentionGradients};
use ferrowarp::device::{Buffer, Device, DeviceError};
use ferrowarp::matmul::Precision;
use ferrowarp::norm::{GradientOutputs, Norm, Statistics};
use ferrowarp::softmax::cross_entropy;
use ferrowarp::{
    CrossEntropy, CumulativeSum, Element, Matmul, Reduce, Reduction, Sample, Softmax, TensorView,
    TensorViewMut, TopK, Transpose,
};

/// Elements of each buffer.
const ELEMENTS: usize = 1 << 18;
/// The problems of each operation for each PTX on each GPU.
const PROBLEMS: u64 = 12;

/// Runs nothing, and notes the launches of kernels that the PTX lacks.
struct Recorder {
    limits: Limits,
    loaded: BTreeSet<&'static str>,
    lacking: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Launcher for Recorder {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        call.check(cuda_std::launch::Residence::Host, &self.limits)?;
        if !self.loaded.contains(call.meta.name) {
            self.lacking.lock().unwrap().insert(call.meta.name);
        }
        Ok(())
    }
}

/// Whether the PTX for this architecture has the kernel: see `the_ptx_holds_the_kernels_of_the_table_and_no_other`. The PTX
/// for 9.0 has the kernels for 9.0 alone in a file of its own, which only such a GPU loads.
fn is_in_ptx(kernel: &KernelMeta, ptx: u32, gpu: u32) -> bool {
    let has_arch =
        if kernel.arch_specific { [ptx, gpu] == [kernel.min_arch; 2] } else { kernel.min_arch <= ptx };
    has_arch && !kernel.cpu_only
}

/// A GPU with PTX for one architecture.
struct Gpu {
    device: Device,
    ptx: u32,
    capability: u32,
    lacking: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Gpu {
    fn new((capability, multiprocessors): (u32, usize), ptx: u32) -> Self {
        let max_resident_threads = 1024 * multiprocessors as u64;
        let mut limits = Limits { max_resident_threads, ..Limits::of_gpu(capability) };
        let loaded = gpu_kernels::KERNELS.iter().filter(|kernel| is_in_ptx(kernel, ptx, capability));
        // The device sets it for PTX of an older architecture.
        let names = || Arc::new(loaded.clone().map(|kernel| kernel.name.to_owned()).collect());
        limits.kernels = (ptx < capability).then(names);
        let loaded = loaded.clone().map(|kernel| kernel.name).collect();
        let lacking = Arc::default();
        let recorder = Recorder { limits: limits.clone(), loaded, lacking: Arc::clone(&lacking) };
        let profile = DeviceProfile { limits, multiprocessors, is_cpu: false };
        Self { device: Device::with_profile(recorder, profile), ptx, capability, lacking }
    }

    fn zeros<T: Pod>(&self) -> Buffer<T> {
        self.device.alloc_zeroed(ELEMENTS).unwrap()
    }

    /// Checks an operation for which the PTX for `least` and later architectures has kernels.
    #[track_caller]
    fn check(&self, what: &str, least: u32, result: Result<(), DeviceError>) {
        let lacking = std::mem::take(&mut *self.lacking.lock().unwrap());
        let has = self.ptx >= least;
        let on = format!("{what} with PTX for {} on a GPU of {}", self.ptx, self.capability);
        match result {
            Ok(()) if has => assert!(lacking.is_empty(), "{on} launches what the PTX lacks: {lacking:?}"),
            Ok(()) => assert!(!lacking.is_empty(), "{on} launches nothing, without an error"),
            Err(error) => assert!(!has, "{on}: {error}"),
        }
    }
}

/// Numbers from a seed.
struct Draw(u64);

impl Draw {
    /// A number from 1 to `most`, each power of two as likely as any other.
    fn up_to(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (bits, rest) = ((self.0 >> 33) as u32 % (most.ilog2() + 1), (self.0 >> 40) as usize);
        ((1 << bits) + rest % (1 << bits)).min(most)
    }

    fn is_true(&mut self) -> bool {
        self.up_to(4) > 2
    }
}

fn rows_and_columns<T: Element>(gpu: &Gpu, draw: &mut Draw) {
    let cols = draw.up_to(ELEMENTS);
    let rows = draw.up_to(ELEMENTS / cols);
    let device = &gpu.device;
    let (zeros, more, vector) = (gpu.zeros::<T>(), gpu.zeros::<T>(), gpu.zeros::<f32>());
    let (mut out, mut floats, mut words) = (gpu.zeros::<T>(), gpu.zeros::<f32>(), gpu.zeros::<u32>());
    let x = TensorView::new(&zeros, [rows, cols]).unwrap();
    let shape = format!("{rows} x {cols} of {}", std::any::type_name::<T>());
    let check = |what: &str, result| gpu.check(&format!("{what} of {shape}"), 75, result);
    macro_rules! out {
        () => {
            TensorViewMut::new(&mut out, [rows, cols]).unwrap()
        };
    }
    check("softmax", Softmax::new().run_into(device, out!(), x).map_err(Into::into));
    let y = TensorView::new(&more, [rows, cols]).unwrap();
    check("softmax's gradient", Softmax::new().backward_into(device, out!(), x, y).map_err(Into::into));
    let targets = gpu.zeros::<i64>();
    let outputs = cross_entropy::Outputs::new(floats.view_mut(..rows).unwrap()).gradient(out!());
    let loss = CrossEntropy::new().run_into(device, outputs, x, targets.view(..rows).unwrap());
    check("cross entropy", loss.map_err(Into::into));
    let k = draw.up_to(ELEMENTS / rows).min(128);
    let probabilities = TensorViewMut::new(&mut floats, [rows, k]).unwrap();
    let indices = TensorViewMut::new(&mut words, [rows, k]).unwrap();
    check("top-k", TopK::new(k).run_into(device, probabilities, indices, x).map_err(Into::into));
    for sample in [Sample::new(), Sample::new().top_k(k), Sample::new().top_p(0.9)] {
        let tokens = words.view_mut(..rows).unwrap();
        check("sample", sample.run_into(device, tokens, x).map_err(Into::into));
    }
    for norm in [Norm::rms(), Norm::layer()] {
        check("a norm", norm.run_into(device, out!(), x).map_err(Into::into));
    }
    let mut weight = gpu.zeros::<T>();
    let outputs = GradientOutputs::new(out!()).weight(weight.view_mut(..cols).unwrap());
    let statistics = Statistics::rms(vector.view(..rows).unwrap());
    let gradient = Norm::rms().backward_into(device, outputs, x, x, statistics);
    check("a norm's gradient", gradient.map_err(Into::into));
    for reduction in [Reduction::Sum, Reduction::Max] {
        let of_rows = Reduce::rows(reduction).run_into(device, out.view_mut(..rows).unwrap(), x);
        check("a reduction of rows", of_rows.map_err(Into::into));
        let of_columns = Reduce::columns(reduction).run_into(device, out.view_mut(..cols).unwrap(), x);
        check("a reduction of columns", of_columns.map_err(Into::into));
    }
    check("cumsum", CumulativeSum::new().run_into(device, out!(), x).map_err(Into::into));
    let to = TensorViewMut::new(&mut out, [cols, rows]).unwrap();
    check("transpose", Transpose::new().run_into(device, to, x).map_err(Into::into));
}

fn products<T: Element>(gpu: &Gpu, draw: &mut Draw) {
    let [m, n, k] = [draw.up_to(1024), draw.up_to(1024), draw.up_to(1024)].map(|extent| extent.min(512));
    let batch = draw.up_to((ELEMENTS / (m * n).max(m * k).max(n * k)).max(1));
    let (zeros, mut out) = (gpu.zeros::<T>(), gpu.zeros::<T>());
    for (a_is_transposed, b_is_transposed) in [(false, false), (false, true), (true, false), (true, true)] {
        let of = |rows, cols, is_transposed: bool| {
            let [stored_rows, stored_cols] = if is_transposed { [cols, rows] } else { [rows, cols] };
            let matrix = TensorView::new(&zeros, [batch, stored_rows, stored_cols]).unwrap();
            if is_transposed { matrix.t() } else { matrix }
        };
        for precision in [Precision::F32, Precision::Tf32] {
            let c = TensorViewMut::new(&mut out, [batch, m, n]).unwrap();
            let (a, b) = (of(m, k, a_is_transposed), of(k, n, b_is_transposed));
            let run = Matmul::new().precision(precision).run_into(&gpu.device, c, a, b);
            let what = format!(
                "{batch} of {m} x {n} x {k} of {}, {precision:?}, transposed {a_is_transposed} and {b_is_transposed}",
                std::any::type_name::<T>()
            );
            gpu.check(&what, 80, run.map_err(Into::into));
        }
    }
}

fn attentions<T: Element16>(gpu: &Gpu, draw: &mut Draw) {
    let [batch, key_heads, groups] = [2, 4, 4].map(|most| draw.up_to(most));
    let heads = key_heads * groups;
    let head_size = [64, 128, 8 * draw.up_to(32), draw.up_to(256)][draw.up_to(4) - 1];
    let most = 8 * ELEMENTS / (batch * heads * 256);
    let [queries, keys] = [draw.up_to(most.max(1)), draw.up_to(most.max(1))];
    let (q_shape, k_shape) = ([batch, queries, heads, head_size], [batch, keys, key_heads, head_size]);
    let (zeros, mut out) =
        (gpu.device.alloc_zeroed::<T>(8 * ELEMENTS).unwrap(), gpu.device.alloc_zeroed(8 * ELEMENTS).unwrap());
    let [q, k] = [q_shape, k_shape].map(|shape| TensorView::new(&zeros, shape).unwrap());
    let what = format!("{q_shape:?} and {k_shape:?} of {}", std::any::type_name::<T>());
    let call = if draw.is_true() { Attention::new().causal(Causal::TopLeft) } else { Attention::new() };
    let run = call.run_into(&gpu.device, TensorViewMut::new(&mut out, q_shape).unwrap(), q, k, k);
    gpu.check(&what, 80, run.map_err(Into::into));

    let [mut d_k, mut d_v] = [0; 2].map(|_| gpu.device.alloc_zeroed::<T>(8 * ELEMENTS).unwrap());
    let log_sum_exp = gpu.device.alloc_zeroed::<f32>(batch * heads * queries).unwrap();
    let gradients = AttentionGradients::new(
        TensorViewMut::new(&mut out, q_shape).unwrap(),
        TensorViewMut::new(&mut d_k, k_shape).unwrap(),
        TensorViewMut::new(&mut d_v, k_shape).unwrap(),
    );
    let results = (q, TensorView::new(&log_sum_exp, [batch, heads, queries]).unwrap());
    let run = Attention::new().backward_into(&gpu.device, gradients, q, q, k, k, results);
    let what = format!("the gradients of {q_shape:?} and {k_shape:?} of {}", std::any::type_name::<T>());
    gpu.check(&what, 80, run.map_err(Into::into));
}

#[test]
fn only_kernels_of_the_loaded_ptx_are_launched() {
    // Compute capability, multiprocessors.
    let gpus = [(75, 40), (80, 108), (86, 84), (89, 128), (90, 132), (100, 148), (120, 170)];
    for gpu in gpus {
        for ptx in [75, 80, 86, 90].into_iter().filter(|ptx| *ptx <= gpu.0) {
            let gpu = Gpu::new(gpu, ptx);
            let mut draw = Draw(u64::from(1000 * gpu.capability + ptx));
            for _ in 0..PROBLEMS {
                rows_and_columns::<f32>(&gpu, &mut draw);
                rows_and_columns::<bf16>(&gpu, &mut draw);
                rows_and_columns::<f16>(&gpu, &mut draw);
                products::<f32>(&gpu, &mut draw);
                products::<bf16>(&gpu, &mut draw);
                products::<f16>(&gpu, &mut draw);
                attentions::<bf16>(&gpu, &mut draw);
                attentions::<f16>(&gpu, &mut draw);
            }
        }
    }
}
