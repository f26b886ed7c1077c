// Puzzle 17, pooling (05-shared-memory): the largest of each window of 2 x 2.
//
// Write to `out[row][col]` the largest of the four elements of `inp` in the rows `2 * row` and `2 * row + 1` and the columns
// `2 * col` and `2 * col + 1`. `inp` is `[rows, cols]`, `out` is `[(rows + 1) / 2, (cols + 1) / 2]`, rounded down: if an extent
// is odd, the last windows have fewer elements.
//
//     inp   1  7 |  3      out   7   3
//           5  2 | -4            9  -1
//           -----+---
//           9  8 | -1
//
// Blocks have 32 x 4 threads and compute 32 x 4 elements of `out`, columns along x. Neighbouring threads read elements that are 8
// bytes apart, half of each sector in vain. So let the block copy its 64 x 8 elements to shared memory first, neighbours by
// neighbours.
//
// Good: 4 sectors per load.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn pooling(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let tile = shared_array![f32; 64 * 8];
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (top, left) = (8 * thread::block_idx_y() as usize, 64 * thread::block_idx_x() as usize);
    // Your code here. Row `top` and column `left` of `inp` are the first of this block.
}
