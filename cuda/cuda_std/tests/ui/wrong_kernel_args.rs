use cuda_std::KernelArgs;

#[derive(Clone, Copy, KernelArgs)]
struct AnyLayout {
    out: *mut f32,
}

#[derive(Clone, Copy, KernelArgs)]
#[repr(C)]
struct Reference<'a> {
    out: *mut f32,
    inp: &'a [f32],
}

#[derive(Clone, Copy, KernelArgs)]
#[repr(C)]
struct NoNames(*mut f32);

#[derive(Clone, Copy, KernelArgs)]
#[repr(C)]
enum OneOfMany {
    Out(*mut f32),
}

fn main() {}
