//! A struct for a parameter that is a reference to one.

use cuda_std::kernel;
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;

#[derive(Clone, Copy)]
pub struct Params {
    pub scale: f32,
}

#[kernel]
unsafe fn scaled(out: *mut f32, params: &Params) {
    unsafe { *out *= params.scale };
}

fn main() {
    let params = Params { scale: 2.0 };
    let _ = unsafe { scaled::launch(&Executor::new(), LaunchConfig::new(1, 1), &mut [1.0f32], &params) };
}
