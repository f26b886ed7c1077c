//! A row for many blocks that know nothing of each other, in two kernels: for devices without clusters, rows that no
//! cluster holds, and few wide rows, for which clusters would leave most of the device idle.
//!
//! The first kernel gives the (max, sum) of each part of a row, the second merges those of a row and writes. Costs two
//! reads and one write of the row, the second read from the L2 cache as far as that reaches: the second kernel's blocks
//! go backwards, to what the first has read last.
//! Requires: the kernels' block and grid; any shape, any alignment.
//@ ptx(softmax_k9_cluster_split_sums): ld.global.nc.v4 >= 5, bar.sync == 1, st.global == 2, .local == 0
//@ ptx(softmax_k9_cluster_split_out): ld.global.nc.v4 >= 5, bar.sync == 1, st.global.v4 >= 5, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use crate::softmax::ladder::{Arguments, Shapes, Step, WIDE, grid};
use cuda_std::mem::{f32x2, f32x4, load_global_nc, store_global};
use cuda_std::{GpuFloat as _, kernel, shared_array, thread};

use crate::softmax::pair::exchange;

const THREADS: usize = 256;
const WARPS: u32 = 8;
/// Vectors of a thread that are on their way at a time.
const UNROLL: usize = 4;
/// Elements of each part of a row but the last, where that makes no more than `MOST_PARTS`.
const PART: u32 = 4096;
/// In the merge a thread takes one part.
const MOST_PARTS: u32 = 256;

/// Parts of a row.
#[inline(always)]
fn parts(cols: u32) -> u32 {
    cols.div_ceil(PART).min(MOST_PARTS)
}

/// A block's part of a row: from `first` to `end` of the aligned vectors, and of the first part the row's edge.
struct Part<'a> {
    x: &'a [f32],
    row: usize,
    tid: usize,
    head: usize,
    first: usize,
    end: usize,
    edge: usize,
}

impl<'a> Part<'a> {
    #[inline(always)]
    fn new(inp: &'a [f32], block: u32, [rows, cols]: [u32; 2]) -> Self {
        let (parts, tid) = (parts(cols), thread::thread_idx_x() as usize);
        // The remainder, without a second division before the first load.
        let row = block / parts;
        let part = block - row * parts;
        let [row, rows, cols] = [row, rows, cols].map(|n| n as usize);
        let x = &inp[..rows * cols][row * cols..][..cols];
        let head = x.as_ptr().align_offset(16).min(cols);
        let vectors = (cols - head) / 4;
        let share = (vectors as u32).div_ceil(MOST_PARTS).next_multiple_of(32).max(PART / 4);
        let (first, end) = ((part * share) as usize, vectors.min(((part + 1) * share) as usize));
        let edge = if tid < head { tid } else { tid + 4 * vectors };
        Self { x, row, tid, head, first, end, edge: if part == 0 { edge } else { cols } }
    }

    /// Gives place and values of every vector to `vector`.
    #[inline(always)]
    fn for_each(&self, mut vector: impl FnMut(usize, [f32; 4])) {
        let place = |v: usize| self.head + 4 * v;
        // SAFETY: the vector lies in the row, which nobody writes, a whole number of vectors from a boundary.
        let load = |v: usize| unsafe { load_global_nc(self.x.as_ptr().add(place(v)).cast::<f32x4>()) };
        let mut v = self.first + self.tid;
        while v + (UNROLL - 1) * THREADS < self.end {
            let x_reg: [f32x4; UNROLL] = core::array::from_fn(|i| load(v + i * THREADS));
            for i in 0..UNROLL {
                vector(place(v + i * THREADS), x_reg[i].to_array());
            }
            v += UNROLL * THREADS;
        }
        while v < self.end {
            vector(place(v), load(v).to_array());
            v += THREADS;
        }
    }
}

/// The maximum of each part of the rows of `inp` to `workspace[row * parts + part]`, at least the smallest number, and
/// the sum of `exp(inp - max)` as many elements after it as there are parts in all rows.
///
/// Launched on `rows * parts` blocks of 256 threads.
///
/// # Safety
/// The launch is as said; `workspace` holds two elements for each part, which nobody else uses; `inp` holds at least
/// `rows * cols` elements.
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Shapes = SHAPES)]
pub unsafe fn softmax_k9_cluster_split_sums(workspace: *mut f32, inp: &[f32], rows: u32, cols: u32) {
    let block = thread::block_idx_x();
    let part = Part::new(inp, block, [rows, cols]);
    let edge = part.x.get(part.edge).copied().unwrap_or(f32::NEG_INFINITY);
    let mut max = edge.max(f32::MIN);
    let mut sum = (edge - max).exp();
    part.for_each(|_, x| {
        let larger = x.into_iter().fold(max, f32::max);
        sum = x.into_iter().fold(sum * (max - larger).exp(), |sum, x| sum + (x - larger).exp());
        max = larger;
    });
    // SAFETY: all threads of the block come here.
    let pair =
        unsafe { exchange::<WARPS>(shared_array![f32x2; WARPS as usize], part.tid, f32x2::new(max, sum)) };
    if part.tid == 0 {
        // SAFETY: the two elements of this part.
        unsafe {
            *workspace.add(block as usize) = pair.x;
            *workspace.add(thread::grid_dim_x() as usize + block as usize) = pair.y;
        }
    }
}

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row, both `[rows, cols]`, with what
/// [`softmax_k9_cluster_split_sums`](fn@softmax_k9_cluster_split_sums) has left in `workspace`. Launched on as many
/// blocks of 256 threads.
///
/// # Safety
/// The launch is as said; `out` holds `rows * cols` elements that nobody else uses; `inp` holds at least as many.
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Shapes = SHAPES)]
pub unsafe fn softmax_k9_cluster_split_out(
    out: *mut f32,
    inp: &[f32],
    workspace: *mut f32,
    rows: u32,
    cols: u32,
) {
    let blocks = thread::grid_dim_x();
    let part = Part::new(inp, blocks - 1 - thread::block_idx_x(), [rows, cols]);
    let mut pair = f32x2::new(f32::MIN, 0.0);
    if part.tid < parts(cols) as usize {
        let i = part.row * parts(cols) as usize + part.tid;
        // SAFETY: an element for each part of the row.
        pair = unsafe { f32x2::new(*workspace.add(i), *workspace.add(blocks as usize + i)) };
    }
    // SAFETY: all threads of the block come here.
    let f32x2 { x: max, y: sum } =
        unsafe { exchange::<WARPS>(shared_array![f32x2; WARPS as usize], part.tid, pair) };
    let scale = 1.0 / sum;
    // SAFETY: the row lies in the shape of `out`, the places lie in the row, and this thread alone writes them; the
    // vectors are aligned if they are equally far from a boundary in both rows.
    unsafe {
        let y = out.add(part.row * part.x.len());
        let is_aligned = y.add(part.head).cast::<f32x4>().is_aligned();
        part.for_each(|col, x| {
            let values = x.map(|x| (x - max).exp() * scale);
            if is_aligned {
                store_global(y.add(col).cast(), f32x4::from(values));
            } else {
                (0..4).for_each(|i| *y.add(col + i) = values[i]);
            }
        });
        if let Some(&x) = part.x.get(part.edge) {
            *y.add(part.edge) = (x - max).exp() * scale;
        }
    }
}

/// A block a part.
#[cfg(not(target_arch = "nvptx64"))]
const SHAPES: Shapes = Shapes {
    narrowest: WIDE,
    workspace_len: |rows, cols| 2 * rows as usize * parts(cols) as usize,
    ..Shapes::all(|rows, cols| grid(u64::from(rows) * u64::from(parts(cols)), THREADS))
};

/// Both kernels.
#[cfg(not(target_arch = "nvptx64"))]
pub(in crate::softmax) const PAIR: [&Step; 2] =
    [&softmax_k9_cluster_split_sums::INSTANCES[0], &softmax_k9_cluster_split_out::INSTANCES[0]];
