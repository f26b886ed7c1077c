use cuda_builder::CudaBuilder;

fn main() {
    // The kernels of this crate, and those of `ferrowarp::softmax`; "ferrowarp" names those of all operations.
    CudaBuilder::new("kernels").embed_or_exit();
    CudaBuilder::of_dependency("ferrowarp-softmax-kernels").embed_or_exit();
}
