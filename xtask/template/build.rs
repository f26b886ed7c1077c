use cuda_builder::{CudaBuilder, NvvmArch};

fn main() {
    // One module for each architecture named; a GPU takes the newest that is not newer than itself.
    let archs = [NvvmArch::Compute80, NvvmArch::Compute90];
    CudaBuilder::new("kernels").archs(&archs).embed_or_exit();
    // The kernels of `ferrowarp::softmax`.
    CudaBuilder::of_dependency("gpu-kernels").embed_or_exit();
}
