use cuda_std::kernel;

#[kernel]
unsafe fn owns(out: *mut f32, names: Vec<f32>) {}

fn main() {}
