use cuda_std::kernel;

/// # Safety
/// It does nothing.
#[kernel(args)]
unsafe fn takes_no_struct(out: *mut f32) {
    let _ = out;
}

fn main() {}
