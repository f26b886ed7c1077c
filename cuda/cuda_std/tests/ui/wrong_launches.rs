use cuda_std::kernel;
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;

/// # Safety
/// None is needed; it does nothing.
#[kernel]
unsafe fn scale(out: *mut f32, inp: &[f32], factor: f32) {
    let _ = (out, inp, factor);
}

#[derive(Clone, Copy)]
struct Camera(f32);

/// # Safety
/// None is needed; it does nothing.
#[kernel]
unsafe fn look(out: *mut [f32], camera: Camera) {
    let _ = (out, camera);
}

fn main() {
    let (on, config, inp) = (Executor::new(), LaunchConfig::new(1, 1), [1.0f32; 4]);
    let mut out = [0.0f32; 4];
    unsafe { scale::launch(&on, config, &mut [0.0f64; 4], &inp, 2.0) }.unwrap();
    unsafe { scale::launch(&on, config, &out, &inp, 2.0) }.unwrap();
    unsafe { scale::launch(&on, config, &mut out, &inp) }.unwrap();
    unsafe { scale::launch(&on, config, &mut out, &inp, 2u32) }.unwrap();
    unsafe { look::launch(&on, config, &mut out, 2.0) }.unwrap();
    unsafe { look::launch(&on, config, &out, Camera(2.0)) }.unwrap();
}
