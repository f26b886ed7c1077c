//! Panics, assertions and text.

use cuda_std::io;

kernels! {
    //@ ptx: call == 1
    panic_assert(n: u32) { assert!(n > 3, "n must be over 3"); }

    //@ ptx: call == 1
    panic_assert_eq(n: u32, m: u32) { cuda_std::assert_eq!(n, m); }

    //@ ptx: call == 1
    panic_bounds(a: &[f32], n: usize, out: *mut f32) { *out = a[n]; }

    //@ ptx: call >= 1
    panic_slice(a: &[f32], n: usize, out: *mut f32) { *out = a[n..n * 2 + 1].iter().fold(0.0, |a, b| a + b); }

    //@ ptx: call == 1
    io_print() { io::print(c"100% done\n"); }
}
