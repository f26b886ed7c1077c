use cuda_builder::{CudaBuilder, NvvmArch};

fn main() {
    // For this machine's GPU, or for compute capability 9.0 if there is none. For other GPUs, name more architectures, as in
    // `.archs(&[NvvmArch::Compute80, NvvmArch::Compute90])`: a GPU takes the newest that is not newer than itself.
    let arch = NvvmArch::native().unwrap_or(NvvmArch::Compute90);
    CudaBuilder::new("kernels").arch(arch).embed_or_exit();
}
