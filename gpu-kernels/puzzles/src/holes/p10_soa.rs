// Puzzle 10, soa (03-coalescing): from an array of structures to a structure of arrays.
//
// `inp` has `n` points, each as three neighbouring numbers x, y and z. Write all x first, then all y, then all z.
//
//     inp    x0 y0 z0 x1 y1 z1 x2 y2 z2
//     out    x0 x1 x2 y0 y1 y2 z0 z1 z2
//
// The grid has blocks of 128 threads, enough for a thread per number: `3 * n`.
//
// With a thread per point each load is 12 bytes from its neighbour's, and a warp touches 12 sectors for it. With a thread
// per number of `inp`, all loads are coalesced, and the stores go to three places.
//
// Good: 4 sectors per load, and at most 8 per store.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn soa(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d();
    // Your code here.
}
