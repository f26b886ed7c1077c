use cuda_builder::{CudaBuilder, NvvmArch};

fn main() {
    // One module for each architecture; a GPU uses the newest that is not newer than itself.
    let archs = [NvvmArch::Compute80, NvvmArch::Compute90];
    CudaBuilder::new("kernels").archs(&archs).embed_or_exit();
    // The kernels of `ferrowarp::softmax`, for this machine's GPU, or compute capability 9.0 without one. For older GPUs add
    // `.archs(&archs)` here too.
    CudaBuilder::of_dependency("gpu-kernels").embed_or_exit();
}
