use cuda_builder::CudaBuilder;

fn main() {
    // The kernels of this crate. Those of the library's operations come with it.
    CudaBuilder::new("kernels").embed_or_exit();
}
