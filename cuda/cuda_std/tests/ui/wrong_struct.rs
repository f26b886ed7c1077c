use cuda_std::kernel;
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;

#[derive(Clone, Copy)]
struct Camera(f32);

/// # Safety
/// None is needed; it does nothing.
#[kernel]
unsafe fn look(out: *mut [f32], camera: Camera) {
    let _ = (out, camera);
}

fn main() {
    let mut out = [0.0f32; 4];
    let config = LaunchConfig::new(1, 1);
    unsafe { look::launch(&Executor::new(), config, &mut out, 2.0) }.unwrap();
    unsafe { look::launch(&Executor::new(), config, &out, Camera(2.0)) }.unwrap();
}
