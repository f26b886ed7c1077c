//! Rows that stay in shared memory.

use cuda_std::mem::{f32x2, u32x4};
use cuda_std::warp::reduce_min_width;
use cuda_std::{cluster, thread};

use super::args::CrossEntropyArgs;
use super::first_max::{first_of, first_of_row};
use crate::forward::exp;
use crate::forward_staged::{AT_ONCE, reduce_piece};
use crate::row::{NO_PAIR, Part, Row, exchange, merge};
use crate::stage::{Stage, piece_len};
use common_kernels::element::Element;

/// Computes the cross entropy of rows that a block or a cluster holds: reads them once, with or without a gradient.
///
/// # Safety
/// Same as for the kernels; `dynamic` is the launch's dynamic shared memory; `shared` and `first_shared` belong to the block
/// and have an element per warp each.
#[inline(always)]
pub(super) unsafe fn in_shared<T, const N: usize, const BLOCK: usize>(
    dynamic: *mut u32x4,
    shared: *mut f32x2,
    first_shared: *mut u32,
    args: CrossEntropyArgs<T>,
) where
    T: Element<N>,
{
    let tid = thread::thread_idx_x() as usize;
    let part = Part { rank: cluster::block_rank(), parts: cluster::num_blocks() };
    let index = thread::block_idx_x() as usize / part.parts as usize;
    // SAFETY: the kernel's contract. All threads of the cluster execute this and everything below.
    unsafe {
        // The blocks send each other the maximum, the sum, and the first column of the maximum.
        let stage = Stage::<u32x4>::new(dynamic, part, 1);
        let row: Row<T, T, BLOCK> = args.part::<N, BLOCK>(index, part);
        // Wait for the target before reading the row, which may not be needed. If rows are so few that nothing is
        // prefetched, latency counts: read at once.
        let is_needed = args.prefetch_blocks == 0 || args.needs_logits(args.target(index));
        let source = if is_needed { row } else { row.empty() };
        let piece = piece_len::<BLOCK, AT_ONCE>(source.part_len());
        Row::fetch::<N, 1>([source], [stage.vectors], piece, stage.pieces);
        args.prefetch_part(index, 1, part);
        let target = args.target(index);
        // All threads read it before the blocks exchange their values, and so before any writes the gradient over it.
        let logit = args.logit(index, target);
        let edge_reg = source.load_edges::<N>(f32::NEG_INFINITY);

        let max = edge_reg[0].max(edge_reg[1]).max(f32::MIN);
        let [first, second] = edge_reg.map(|x| exp::<T>(x - max, 1.0));
        let mut mine = f32x2::new(max, first + second);
        stage.for_each_piece(source.part_len(), piece, |first, len| {
            mine = reduce_piece::<T, T, N, BLOCK>(stage.vectors.wrapping_add(first + tid), len, mine, 1.0);
        });
        let mut pair = exchange::<BLOCK>(shared, merge::<32>(mine, 1.0), 1.0);
        let mut first = u32::MAX;
        if args.wants_correct() {
            let mut i = 0;
            while let (true, Some(place)) = (mine.x == pair.x, source.vector::<N>(i)) {
                first = first.min(first_of(T::unpack(*stage.vectors.add(i * BLOCK + tid)), pair.x, place));
                i += 1;
            }
            let places = source.edges::<N>();
            for i in 0..2 {
                first = first.min(first_of([edge_reg[i]], pair.x, places[i]));
            }
            first = first_of_row::<BLOCK, 32>(first_shared, first);
        }
        if part.parts > 1 {
            let none = [NO_PAIR.x.to_bits(), 0, u32::MAX, 0].into();
            let of_block = [pair.x.to_bits(), pair.y.to_bits(), first, 0].into();
            let [max, sum, of_first, _] = stage.others.swap(of_block, none).to_array();
            let max = f32::from_bits(max);
            pair = merge::<16>(f32x2::new(max, f32::from_bits(sum)), 1.0);
            first = reduce_min_width::<u32, 16>(u32::MAX, if max == pair.x { of_first } else { u32::MAX });
        }

        if tid == 0 && part.rank == 0 {
            args.write_results(index, target, logit, pair, first);
        }
        if !args.wants_gradient() {
            return;
        }
        let gradient = args.gradient(index, target, pair.y);
        let exp = |x: f32| exp::<T>(x - pair.x, 1.0);
        let mut i = 0;
        while let Some(to) = row.output::<N>(i) {
            // A row that was not read is not in shared memory.
            let gradients = match gradient.is_zero() {
                true => [0.0; N],
                false => gradient.of_others(T::unpack(*stage.vectors.add(i * BLOCK + tid)).map(exp)),
            };
            T::store(to, gradients);
            i += 1;
        }
        gradient.finish::<T, N, BLOCK>(&row, (edge_reg, logit), exp);
    }
}
