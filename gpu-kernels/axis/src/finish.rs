//! Combines the results of parts, in a fixed order.
//@ ptx(axis_finish_f32, axis_finish_f16, axis_finish_bf16): bar.sync == 1, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::{grid, kernel, shared_array, thread};

use super::args::{FinishArgs, SUM};
use super::fold::{combine, combine_all, combine_shared, neutral, write};
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::ReduceShape;
use common_kernels::element::Number;
use common_kernels::sum::Sum;

/// Loads that a thread has in flight at the same time.
const IN_FLIGHT: usize = 8;

/// Computes the sum or the maximum of the parts of each result.
///
/// `GROUPS` threads share the parts of a result. Launched with blocks of `COLS * GROUPS` threads, one per `COLS` results. They
/// may start before the launch that writes the parts has ended.
///
/// # Safety
/// The launch is as described; the pointers are valid for their shapes; no other code uses what is written.
#[kernel(
    with(BLOCK = COLS * GROUPS),
    max_threads = BLOCK,
    args,
    facts: ReduceShape = ReduceShape { block: BLOCK as u32, vector: COLS as u32 },
    instances(
        axis_finish_f32 = <f32, 8, 32>;
        axis_finish_f16 = <f16, 8, 32>;
        axis_finish_bf16 = <bf16, 8, 32>;
        axis_finish_f32_serial = <f32, 1, 1>, cpu_only = true;
        axis_finish_f16_serial = <f16, 1, 1>, cpu_only = true;
        axis_finish_bf16_serial = <bf16, 1, 1>, cpu_only = true;
    ),
)]
pub unsafe fn axis_finish<T, const COLS: usize, const GROUPS: usize, const BLOCK: usize>(args: FinishArgs<T>)
where
    T: Number,
{
    let shared = shared_array![f32; 256];
    let tid = thread::thread_idx_x() as usize;
    let (lane, group) = (tid % COLS, tid / COLS);
    let col = thread::block_idx_x() as usize * COLS + lane;
    let (count, outputs) = (args.count as usize, args.outputs as usize);
    let (is_there, is_sum) = (col < outputs, args.flags & SUM != 0);
    let (mut sum, mut largest) = (Sum::ZERO, neutral(false));
    grid::wait_for_dependencies();
    grid::launch_dependents();
    // SAFETY: the kernel's contract. All threads of the block reach the barrier.
    unsafe {
        if is_there {
            for first in (group..count).step_by(IN_FLIGHT * GROUPS) {
                let loaded: [f32; IN_FLIGHT] = core::array::from_fn(|i| {
                    let part = first + i * GROUPS;
                    if part < count { *args.parts.add(part * outputs + col) } else { neutral(is_sum) }
                });
                let all = combine_all(is_sum, loaded);
                if is_sum { sum.add(all) } else { largest = combine(false, largest, all) }
            }
        }
        *shared.add(tid) = if is_sum { sum.value() } else { largest };
        thread::sync_threads_aligned();
        if is_there && group == 0 {
            let all = combine_shared(is_sum, shared.add(lane), [GROUPS as u32, COLS as u32]);
            write(args.out, args.full, col, all * args.scale);
        }
    }
}
