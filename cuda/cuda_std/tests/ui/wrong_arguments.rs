use cuda_std::kernel;

struct Arguments {
    out: *mut f32,
    count: u64,
}

/// # Safety
/// It does nothing.
#[kernel(args = Arguments, instances(fills_4 = <4>;))]
unsafe fn fills<const LEN: usize>(out: *mut f32, value: f32, count: u32) {
    let _ = (out, value, count);
}

/// # Safety
/// It does nothing.
#[kernel(args, instances(counts_4 = <4>;))]
unsafe fn counts<const LEN: usize>(out: *mut f32, count: u32) {
    let _ = (out, count);
}

fn main() {}
