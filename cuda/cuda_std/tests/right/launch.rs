use cuda_std::kernel;
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;

/// # Safety
/// No precondition; it does nothing.
#[kernel]
unsafe fn scale(out: *mut f32, inp: &[f32], factor: f32) {
    let _ = (out, inp, factor);
}

pub fn main() {
    let mut out = [0.0f32; 4];
    // SAFETY: the kernel does nothing.
    unsafe { scale::launch(&Executor::new(), LaunchConfig::new(1, 1), &mut out, &[1.0f32; 4], 2.0) }.unwrap();
}
