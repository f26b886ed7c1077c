//! Stores to the shared memory of other blocks. They signal their arrival at a barrier there.

use crate::barrier::Barrier;

/// One store of the words `$value`.
#[cfg(target_arch = "nvptx64")]
macro_rules! store_asm {
    ($type:literal, $value:literal, $pointer:ident, $barrier:ident, $rank:ident, $($operand:tt)*) => {
        core::arch::asm!(
            concat!(
                "{{ .reg .b64 target, address; cvta.to.shared.u64 target, {pointer}; cvta.to.shared.u64 address, {barrier}; ",
                "mapa.shared::cluster.u64 target, target, {rank}; mapa.shared::cluster.u64 address, address, {rank}; ",
                "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.", $type, " [target], ", $value, ", [address]; }}"
            ),
            pointer = in(reg64) $pointer, barrier = in(reg64) $barrier, rank = in(reg32) $rank, $($operand)*
            options(nostack, preserves_flags),
        )
    };
}

/// Starts a store of `value` to the counterpart of `pointer` in block `rank` of the cluster. Its bytes count at the
/// counterpart of `barrier` there when they arrive (PTX ISA, `st.async`).
///
/// A thread that has waited for the phase that expects the bytes may read the value. The executor performs the store as
/// late as possible, like [bulk copies](crate::bulk); until then the target is uninitialised.
///
/// # Safety
/// - The cluster has at least two blocks; `rank` may be the thread's own block. GPUs trap in a launch without clusters.
/// - `T` has 4, 8 or 16 bytes without padding; `pointer` and `barrier` are the counterparts of the target and its
///   barrier in the block's own shared memory, and `pointer` is aligned to that size.
/// - The barrier is valid ([`barrier`](crate::barrier#safety-of-the-barriers)), with a [barrier of the cluster](super::sync)
///   after its initialisation, and its phase expects the bytes.
/// - Until the store is complete, no thread reads or writes the target, and the other block does not end.
///
/// # Examples
/// ```
/// use cuda_std::barrier::Barrier;
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::simt::Executor;
/// use cuda_std::{cluster, kernel, shared_array, thread};
///
/// /// Each of 4 blocks writes the sum of all blocks' numbers.
/// ///
/// /// # Safety
/// /// One number per block, 4 blocks per cluster, 4 threads per block.
/// #[kernel(min_arch = 90)]
/// pub unsafe fn sums(inp: &[f32], out: *mut f32) {
///     let (sent, ready) = (shared_array![f32; 4], shared_array![Barrier; 1]);
///     let (i, block) = (thread::thread_idx_x(), thread::block_idx_x() as usize);
///     // SAFETY: each thread sends the block's number to a block. Each block expects 4, and stays until all have theirs.
///     unsafe {
///         if i == 0 {
///             Barrier::init(ready, 1);
///             Barrier::fence_init();
///             Barrier::arrive_expect_tx(ready, 16);
///         }
///         cluster::sync();
///         cluster::store_async(sent.add(block % 4), inp[block], ready, i);
///         Barrier::wait_parity_cluster(ready, 0);
///         if i == 0 {
///             *out.add(block) = *sent + *sent.add(1) + *sent.add(2) + *sent.add(3);
///         }
///         cluster::sync();
///     }
/// }
///
/// let mut out = [0.0; 4];
/// let config = LaunchConfig::new(4, 4).with_cluster(4);
/// // SAFETY: 4 numbers, 4 blocks of 4 threads.
/// unsafe { sums::launch(&Executor::new(), config, &[1.0, 2.0, 3.0, 4.0], &mut out) }?;
/// assert_eq!(out, [10.0; 4]);
/// # Ok::<(), cuda_std::launch::LaunchError>(())
/// ```
#[doc(alias = "st.async")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store_async<T: Copy>(pointer: *mut T, value: T, barrier: *mut Barrier, rank: u32) {
    const { assert!(matches!(size_of::<T>(), 4 | 8 | 16), "a size that one store does not have") };
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller guarantees valid pointers, and the value has these words.
    unsafe {
        match size_of::<T>() {
            4 => {
                let word: u32 = core::mem::transmute_copy(&value);
                store_asm!("b32", "{x}", pointer, barrier, rank, x = in(reg32) word,);
            }
            8 => {
                let [x, y]: [u32; 2] = core::mem::transmute_copy(&value);
                store_asm!("v2.b32", "{{{x}, {y}}}", pointer, barrier, rank, x = in(reg32) x, y = in(reg32) y,);
            }
            _ => {
                let [x, y, z, w]: [u32; 4] = core::mem::transmute_copy(&value);
                store_asm!("v4.b32", "{{{x}, {y}, {z}, {w}}}", pointer, barrier, rank,
                    x = in(reg32) x, y = in(reg32) y, z = in(reg32) z, w = in(reg32) w,);
            }
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: the caller guarantees valid pointers.
    unsafe {
        crate::bulk::host::store_async(pointer, value, barrier, rank);
    }
}
