use cuda_builder::CudaBuilder;

fn main() {
    // The kernels of this crate, and those of `ferrowarp::softmax`.
    CudaBuilder::new("kernels").embed_or_exit();
    CudaBuilder::of_dependency("gpu-kernels").embed_or_exit();
}
