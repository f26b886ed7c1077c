use cuda_builder::CudaBuilder;

fn main() {
    let out = std::env::var("OUT_DIR").unwrap();
    CudaBuilder::new("kernels").split(true).out_dir(out).build_all().unwrap();
}
