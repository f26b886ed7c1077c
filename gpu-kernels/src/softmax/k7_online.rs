//! k7: maximum and sum in one pass (Milakov and Gimelshein 2018).
//!
//! Since k6 each thread keeps a running maximum with its sum, and scales the sum when the maximum grows; the pairs of
//! all warps meet in one exchange.
//! Buys: the row is read twice and no longer three times, for five exponentials a vector where there were four, and
//! 1 barrier. The maximum starts at the smallest number, not at -inf, whose difference to itself is NaN.
//! Requires: a block of the kernel's threads; any shape, any alignment.
//@ ptx(softmax_k7_online_64x2): ld.global.nc.v4 >= 6, bar.sync == 1, shfl.sync.bfly == 12, .local == 0
//@ ptx(softmax_k7_online_128x4): ld.global.nc.v4 >= 10, bar.sync == 1, shfl.sync.bfly == 14, .local == 0
//@ ptx(softmax_k7_online_256x8): ld.global.nc.v4 >= 18, bar.sync == 1, shfl.sync.bfly == 16, .local == 0
//@ ptx(softmax_k7_online_512x4): ld.global.nc.v4 >= 10, bar.sync == 1, shfl.sync.bfly == 18, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use cuda_std::mem::{f32x2, f32x4, load_global_nc, store_global};
use cuda_std::warp::{reduce_max, reduce_max_width, reduce_sum, reduce_sum_width};
use cuda_std::{GpuFloat as _, kernel, thread};

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

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched on `rows` blocks of `BLOCK` threads.
///
/// # Safety
/// The launch is as said; `out` holds `rows * cols` elements that nobody else uses; `inp` holds at least as many.
#[kernel(
    with(WARPS = BLOCK / 32),
    args = Arguments,
    facts: Shapes = Shapes { widest, ..Shapes::block_per_row::<BLOCK>() },
    instances(
        softmax_k7_online_64x2 = <64, 2>, widest = 1536;
        softmax_k7_online_128x4 = <128, 4>, widest = 3072;
        softmax_k7_online_256x8 = <256, 8>, widest = 6144;
        softmax_k7_online_512x4 = <512, 4>, widest = usize::MAX;
    ),
)]
pub unsafe fn softmax_k7_online<const BLOCK: usize, const UNROLL: usize, const WARPS: u32>(
    #[shared(WARPS as usize)] shared: *mut f32x2,
    out: *mut f32,
    inp: &[f32],
    #[from(u32)] rows: usize,
    #[from(u32)] cols: usize,
) {
    let (row, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let x = &inp[..rows * cols][row * cols..][..cols];
    let mine = Share::<BLOCK, UNROLL>::new(x, tid);

    let edge = x.get(mine.edge).copied().unwrap_or(f32::NEG_INFINITY);
    let mut max = edge.max(f32::MIN);
    let mut sum = (edge - max).exp();
    let reduce = |_, x: [f32; 4]| {
        let larger = x.into_iter().fold(max, f32::max);
        sum = x.into_iter().fold(sum * (max - larger).exp(), |sum, x| sum + (x - larger).exp());
        max = larger;
    };
    mine.for_each(reduce, |_, _| ());

    // SAFETY: all threads of the block come here; each warp has its own element, and reads after the barrier.
    let (max, sum) = unsafe {
        let max_warp = reduce_max(max);
        let sum_warp = reduce_sum(sum * (max - max_warp).exp());
        if tid % 32 == 0 {
            *shared.add(tid / 32) = f32x2::new(max_warp, sum_warp);
        }
        thread::sync_threads_aligned();
        let f32x2 { x: max_warp, y: sum_warp } = *shared.add(tid % WARPS as usize);
        let max = reduce_max_width::<f32, WARPS>(u32::MAX, max_warp);
        (max, reduce_sum_width::<f32, WARPS>(u32::MAX, sum_warp * (max_warp - max).exp()))
    };
    let scale = 1.0 / sum;
    // SAFETY: the row lies in the shape of `out`, the places lie in the row, and this thread alone writes them; the
    // vectors are aligned if they are equally far from a boundary in both rows.
    unsafe {
        let y = out.add(row * cols);
        let is_aligned = y.add(mine.head).cast::<f32x4>().is_aligned();
        let store = |col: usize, x: [f32; 4]| {
            let values = x.map(|x| (x - max).exp() * scale);
            if is_aligned {
                store_global(y.add(col).cast(), f32x4::from(values));
            } else {
                (0..4).for_each(|i| *y.add(col + i) = values[i]);
            }
        };
        mine.for_each(store, |col, x| *y.add(col) = (x - max).exp() * scale);
    }
}
