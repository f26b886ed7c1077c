use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::{KernelArgs, kernel};

#[derive(Clone, Copy, KernelArgs)]
#[repr(C)]
struct Arguments {
    out: *mut f32,
    inp: *const u32,
    len: u32,
}

/// # Safety
/// None is needed; it does nothing.
#[kernel]
unsafe fn k(args: Arguments) {
    let _ = args;
}

fn main() {
    let (mut out, inp) = ([0.0f32; 4], [1u32; 4]);
    let (on, config) = (Executor::new(), LaunchConfig::new(1, 1));
    unsafe { k::launch(&on, config, ArgumentsHost { out: &out, inp: &inp, len: 4 }) }.unwrap();
    unsafe { k::launch(&on, config, ArgumentsHost { out: &mut out, inp: &[1.0f32; 4], len: 4 }) }.unwrap();
    unsafe { k::launch(&on, config, ArgumentsHost { out: &mut out, inp: &inp, len: 4.0 }) }.unwrap();
}
