//! Rows of up to a chunk, one warp per row, which reads it once.

use cuda_std::thread;

use super::args::SampleArgs;
use super::in_chunk::{Above, InChunk};
use super::noise::Noise;
use crate::chunk::lane;
use crate::top_k::key::key;
use common_kernels::element::Element;

/// Samples the tokens of a block's rows, one row per warp.
///
/// # Safety
/// Same as for the kernels.
#[inline(always)]
pub(super) unsafe fn narrow<T, const N: usize, const BLOCK: usize, const VECTORS: usize>(args: SampleArgs<T>)
where
    T: Element<N>,
{
    let row = thread::block_idx_x() as usize * (BLOCK / 32) + thread::thread_idx_x() as usize / 32;
    if row >= args.rows as usize {
        return;
    }
    // SAFETY: the kernel's contract; all lanes of the warp execute this and everything below, as they have the same sums.
    unsafe {
        let line = args.line::<N>(row);
        let (noise, factor) = (args.noise(row), args.factor());
        let x_reg = line.load::<N, VECTORS>(0);
        let mut chunk = InChunk { line: &line, first: 0, x_reg, above: Above::NOTHING, max_of_row: f32::MIN };
        let mut sums = chunk.sums::<N>(factor);
        let whole = sums.0;
        chunk.max_of_row = whole.x;
        let (mut token, mut round) = (0, 0);
        if whole.y > 0.0 && args.is_greedy() {
            token = chunk.first_of_largest::<N>(whole.x);
        } else if whole.y > 0.0 {
            loop {
                let [_, word] = noise.words(0, round);
                token = chunk.token_at::<N>(Noise::uniform(word), sums, factor);
                if args.top_p >= 1.0 {
                    break;
                }
                chunk.above = Above(key(line.element(token), token));
                sums = chunk.sums::<N>(factor);
                if sums.0.y < args.top_p * whole.y {
                    break;
                }
                round += 1;
            }
        }
        if lane() == 0 {
            args.write(row, token, whole);
        }
    }
}
