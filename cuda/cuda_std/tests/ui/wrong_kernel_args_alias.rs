use cuda_std::KernelArgs;

type Out = *mut f32;

#[derive(Clone, Copy, KernelArgs)]
#[repr(C)]
struct Arguments {
    out: Out,
    len: u32,
}

fn main() {}
