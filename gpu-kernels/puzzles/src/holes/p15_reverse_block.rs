// Puzzle 15, reverse_block (05-shared-memory): reverse each block in place: a barrier.
//
// Reverse the elements of each block of 64 in `data`, in place. The last block may have fewer elements: it reverses those that
// there are.
//
//     data before   0  1  2 .. 63   64 65 .. 127   128 129
//     data after    63 62 ..  0    127 ..  64      129 128
//
// The grid has blocks of 64 threads, enough for a thread per element. A thread reads an element that another one overwrites.
// `thread::sync_threads()` waits until all threads of the block have arrived; all must call it, also those without an element.
//
// Good: 4 sectors per request.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn reverse_block(data: *mut f32, n: u32) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let (first, tid) = (i / 64 * 64, thread::thread_idx_x() as usize);
    // Your code here. The block has `(n - first).min(64)` elements.
}
