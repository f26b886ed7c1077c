//! k6: block size and unroll factor as const parameters, chosen by width.
//!
//! Since k5 a thread issues `UNROLL` loads before it uses the first, and narrow rows get small blocks.
//! Buys: `UNROLL` times the bytes in flight, and fewer idle threads; bytes and barriers are k5's.
//! Requires: a block of the kernel's threads; any shape, any alignment.
//@ ptx(softmax_k6_unrolled_64x2): ld.global.nc.v4 >= 9, bar.sync == 2, shfl.sync.bfly == 12, .local == 0
//@ ptx(softmax_k6_unrolled_128x4): ld.global.nc.v4 >= 15, bar.sync == 2, shfl.sync.bfly == 14, .local == 0
//@ ptx(softmax_k6_unrolled_256x8): ld.global.nc.v4 >= 27, bar.sync == 2, shfl.sync.bfly == 16, .local == 0
//@ ptx(softmax_k6_unrolled_512x8): ld.global.nc.v4 >= 27, bar.sync == 2, shfl.sync.bfly == 18, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::LaunchConfig;
use cuda_std::mem::{f32x4, load_global_nc, store_global};
use cuda_std::warp::{reduce_max, reduce_max_width, reduce_sum, reduce_sum_width};
use cuda_std::{GpuFloat as _, kernel, shared_array, thread};

/// A thread's part of a row: every `BLOCK`th of the aligned vectors, `UNROLL` at a time, and perhaps an edge.
struct Share<'a, const BLOCK: usize, const UNROLL: usize> {
    x: &'a [f32],
    tid: usize,
    head: usize,
    vectors: usize,
    edge: usize,
}

impl<'a, const BLOCK: usize, const UNROLL: usize> Share<'a, BLOCK, UNROLL> {
    #[inline(always)]
    fn new(x: &'a [f32], tid: usize) -> Self {
        let head = x.as_ptr().align_offset(16).min(x.len());
        let vectors = (x.len() - head) / 4;
        Self { x, tid, head, vectors, edge: if tid < head { tid } else { tid + 4 * vectors } }
    }

    /// Gives place and values of every vector to `vector`, and those of the edge to `edge`.
    #[inline(always)]
    fn for_each(&self, mut vector: impl FnMut(usize, [f32; 4]), mut edge: impl FnMut(usize, f32)) {
        let place = |v: usize| self.head + 4 * v;
        // SAFETY: the vector lies in the row, which nobody writes, a whole number of vectors from a boundary.
        let load = |v: usize| unsafe { load_global_nc(self.x.as_ptr().add(place(v)).cast::<f32x4>()) };
        let mut v = self.tid;
        while v + (UNROLL - 1) * BLOCK < self.vectors {
            let x_reg: [f32x4; UNROLL] = core::array::from_fn(|i| load(v + i * BLOCK));
            for i in 0..UNROLL {
                vector(place(v + i * BLOCK), x_reg[i].to_array());
            }
            v += UNROLL * BLOCK;
        }
        while v < self.vectors {
            vector(place(v), load(v).to_array());
            v += BLOCK;
        }
        if let Some(&x) = self.x.get(self.edge) {
            edge(self.edge, x);
        }
    }
}

/// Softmax of one row.
///
/// # Safety
/// As for the kernels; `shared` has `2 * WARPS` elements of the block's own.
#[inline(always)]
unsafe fn softmax<const BLOCK: usize, const WARPS: u32, const UNROLL: usize>(
    shared: *mut f32,
    out: *mut f32,
    inp: &[f32],
    [rows, cols]: [usize; 2],
) {
    let (row, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let x = &inp[..rows * cols][row * cols..][..cols];
    let mine = Share::<BLOCK, UNROLL>::new(x, tid);
    // SAFETY: all threads of the block call it together; each warp has its own element, and reads after the barrier.
    let exchange = |shared: *mut f32, of_warp: f32| unsafe {
        if tid % 32 == 0 {
            *shared.add(tid / 32) = of_warp;
        }
        thread::sync_threads_aligned();
        *shared.add(tid % WARPS as usize)
    };

    let (mut max, mut edge_max) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    mine.for_each(|_, x| max = x.into_iter().fold(max, f32::max), |_, x| edge_max = x);
    // SAFETY: all threads of the block come here.
    let max = unsafe {
        let of_warp = reduce_max(max.max(edge_max));
        reduce_max_width::<f32, WARPS>(u32::MAX, exchange(shared, of_warp))
    };

    let (mut sum, mut edge_sum) = (0.0, 0.0);
    let exp = |x: f32| (x - max).exp();
    mine.for_each(|_, x| sum = x.map(exp).into_iter().fold(sum, |a, b| a + b), |_, x| edge_sum = exp(x));
    // SAFETY: as above; the sums have elements of their own, so that nobody waits for the reads of the maxima.
    let sum = unsafe {
        let of_warp = reduce_sum(sum + edge_sum);
        reduce_sum_width::<f32, WARPS>(u32::MAX, exchange(shared.add(WARPS as usize), of_warp))
    };
    let scale = 1.0 / sum;
    // SAFETY: the row lies in the shape of `out`, the places lie in the row, and this thread alone writes them; the
    // vectors are aligned if they are equally far from a boundary in both rows.
    unsafe {
        let y = out.add(row * cols);
        let is_aligned = y.add(mine.head).cast::<f32x4>().is_aligned();
        let store = |col: usize, x: [f32; 4]| {
            let values = x.map(|x| exp(x) * scale);
            if is_aligned {
                store_global(y.add(col).cast(), f32x4::from(values));
            } else {
                (0..4).for_each(|i| *y.add(col + i) = values[i]);
            }
        };
        mine.for_each(store, |col, x| *y.add(col) = exp(x) * scale);
    }
}

block_per_row! { softmax<BLOCK, WARPS, UNROLL>, shared 2 f32;
    softmax_k6_unrolled_64x2 64 2 2, 1536;
    softmax_k6_unrolled_128x4 128 4 4, 3072;
    softmax_k6_unrolled_256x8 256 8 8, 8192;
    softmax_k6_unrolled_512x8 512 16 8, usize::MAX;
}
