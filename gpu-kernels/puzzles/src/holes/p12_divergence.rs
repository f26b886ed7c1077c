// Puzzle 12, divergence (04-warps): a branch that all lanes of a warp take together.
//
// Element `i` of `data` is replaced: with an even `i` by the result of `rounds` steps of `x * 1664525 + 1013904223`
// (wrapping), with an odd `i` by `x + 1`. The grid has blocks of 128 threads, enough for a thread per element.
//
// The kernel below is right. But half of the lanes of each warp have a long loop, and the other half waits: the warp
// diverges. Choose another element for each thread, so that a warp has even elements only, or odd ones only.
//
// Good: no branch diverges if `n` is a multiple of 64, and the warps with odd elements do not run the loop.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn divergence(data: *mut u32, n: u32, rounds: u32) {
    let i = thread::index_1d();
    if i < n {
        let mut x = *data.add(i as usize);
        if i % 2 == 0 {
            for _ in 0..rounds {
                x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            }
        } else {
            x = x.wrapping_add(1);
        }
        *data.add(i as usize) = x;
    }
}
