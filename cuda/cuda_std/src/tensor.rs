//! Copies of tensor tiles between global and shared memory: one thread starts a copy, and the TMA unit performs it
//! (compute capability 9.0 and later).
//!
//! A [`TensorMap`] describes a tensor of 1 to 5 dimensions in global memory, and the size of its tiles. Host code
//! creates it from a [`TensorMapSpec`] and passes it to the kernel by value. A copy takes the coordinates of the tile's
//! first element, the innermost first.
//!
//! The innermost coordinate is a multiple of 16 bytes. Coordinates may be outside the tensor. In shared memory such elements
//! become zero, and their bytes count at the barrier like all others. In global memory they are not written.
//!
//! A copy to shared memory counts the bytes of the whole tile at a [`Barrier`], whose phase expects them. A copy to
//! global memory belongs to the groups of [`bulk::commit`](crate::bulk::commit), and its thread waits with
//! [`bulk::wait_read`](crate::bulk::wait_read) or [`bulk::wait`](crate::bulk::wait).
//!
//! The executor performs copies as late as possible, as [`bulk`](crate::bulk) describes. It also reports a copy into memory that
//! a pending [`wgmma`](crate::wgmma) reads.
//!
//! A kernel that uses this module is a `#[kernel(min_arch = 90)]`. Multicast is fast only on `compute_90a`.
//!
//! # Safety of the copies
//! - The map was created for a live buffer on the device that runs the kernel, and has `RANK` dimensions. It is a
//!   parameter of the kernel, or part of one.
//! - The tile's bytes at `shared` are the block's shared memory, aligned to [`Swizzle::alignment`].
//! - Until the copy is complete, no thread reads or writes the target or writes the source, and no block ends if the
//!   copy uses its shared memory.
//! - The barrier is valid ([`barrier`](crate::barrier#safety-of-the-barriers)), a [`Barrier::fence_init`] comes after
//!   its initialisation, and its phase expects the bytes of the whole tile.
//! - A [`bulk::fence_shared`](crate::bulk::fence_shared) and a barrier come between writes to shared memory and a copy that reads
//!   them.
//!
//! # Examples
//! ```
//! use cuda_std::barrier::Barrier;
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::mem::f32x4;
//! use cuda_std::simt::Executor;
//! use cuda_std::tensor::{self, TensorMap, TensorMapSpec};
//! use cuda_std::{kernel, shared_array, thread};
//!
//! /// A tile of 8 rows and 16 columns, aligned to 128 bytes.
//! #[repr(C, align(128))]
//! pub struct Tile([f32; 128]);
//!
//! /// `out[16, 8]` = the transposed tile of 8 rows and 16 columns at (`x`, `y`).
//! ///
//! /// # Safety
//! /// The map describes a matrix with such tiles, `out` has 128 elements, and the block has 128 threads.
//! #[kernel(min_arch = 90)]
//! pub unsafe fn transpose_tile(map: TensorMap, x: i32, y: i32, out: *mut f32) {
//!     let (tile, ready) = (shared_array![Tile; 1], shared_array![Barrier; 1]);
//!     let i = thread::thread_idx_x() as usize;
//!     // SAFETY: one thread copies the tile, and all wait for it.
//!     unsafe {
//!         if i == 0 {
//!             Barrier::init(ready, 1);
//!             Barrier::fence_init();
//!             Barrier::arrive_expect_tx(ready, 128 * 4);
//!             tensor::global_to_shared(tile, &map, [x, y], ready);
//!         }
//!         thread::sync_threads_aligned();
//!         Barrier::wait_parity(ready, 0);
//!         *out.add(i) = *tile.cast::<f32>().add(i % 8 * 16 + i / 8);
//!     }
//! }
//!
//! let matrix: Vec<f32> = (0..32 * 20).map(|i| i as f32).collect();
//! // 20 rows of 32 columns; the innermost size comes first.
//! let map = TensorMapSpec::new::<f32>([32, 20], [16, 8]).encode_for_cpu(&matrix)?;
//! let mut out = [f32::NAN; 128];
//! // SAFETY: the matrix is alive.
//! unsafe { transpose_tile::launch(&Executor::new(), LaunchConfig::new(1, 128), map, 16, 16, &mut out) }?;
//! // The last 4 rows of the tile are below the matrix.
//! let expected = |column: usize, row: usize| if row < 4 { matrix[32 * (16 + row) + 16 + column] } else { 0.0 };
//! assert!((0..128).all(|i| out[i] == expected(i / 8, i % 8)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::barrier::Barrier;

#[cfg(target_arch = "nvptx64")]
mod device;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod host;
mod map;
#[cfg(not(target_arch = "nvptx64"))]
mod spec;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod tile;

pub use map::{Swizzle, TensorMap};
#[cfg(not(target_arch = "nvptx64"))]
pub use spec::{ElementType, TensorElement, TensorMapError, TensorMapSpec};

/// The name of the function that starts copies to global memory.
#[cfg(not(target_arch = "nvptx64"))]
const TO_GLOBAL: &str = "tensor::shared_to_global";

/// Starts a copy of the tile at `at` to shared memory. Its bytes count at `barrier` when they arrive (PTX
/// ISA, `cp.async.bulk.tensor`).
///
/// # Safety
/// See [the module](self#safety-of-the-copies).
#[doc(alias = "cp.async.bulk.tensor", alias = "cp_async_bulk_tensor_2d_global_to_shared")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn global_to_shared<T, const RANK: usize>(
    shared: *mut T,
    map: &TensorMap,
    at: [i32; RANK],
    barrier: *mut Barrier,
) {
    const { assert!(RANK >= 1 && RANK <= 5, "1 to 5 dimensions") };
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller guarantees valid memory, map and barrier.
    unsafe {
        device::global_to_shared(shared.cast(), map, at, barrier);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: the caller guarantees valid memory, map and barrier.
    unsafe {
        host::global_to_shared("tensor::global_to_shared", shared.cast(), map, &at, (barrier, None));
    }
}

/// Same as [`global_to_shared`], but to each block of the cluster with its bit set in `blocks`: to the counterpart of
/// `shared`, with the bytes counted at the counterpart of `barrier`.
///
/// # Safety
/// See [the module](self#safety-of-the-copies), for target and barrier in each of these blocks, which have started and
/// have not ended.
#[doc(alias = "cp.async.bulk.tensor.multicast::cluster")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn global_to_shared_multicast<T, const RANK: usize>(
    shared: *mut T,
    map: &TensorMap,
    at: [i32; RANK],
    barrier: *mut Barrier,
    blocks: u16,
) {
    const { assert!(RANK >= 1 && RANK <= 5, "1 to 5 dimensions") };
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller guarantees valid memory, map and barrier.
    unsafe {
        device::global_to_shared_multicast(shared.cast(), map, at, barrier, blocks);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: the caller guarantees valid memory, map and barrier.
    unsafe {
        let name = "tensor::global_to_shared_multicast";
        host::global_to_shared(name, shared.cast(), map, &at, (barrier, Some(blocks)));
    }
}

/// Starts a copy of a tile from shared memory to the tensor at `at` (PTX ISA, `cp.async.bulk.tensor`).
///
/// At the end of a row, a GPU writes the last 16 bytes as a whole. If the row ends within them, the bytes that follow
/// it are lost; the executor reports that.
///
/// # Safety
/// See [the module](self#safety-of-the-copies); the thread waits with [`bulk::wait_read`](crate::bulk::wait_read) or
/// [`bulk::wait`](crate::bulk::wait) before it returns.
#[doc(alias = "cp.async.bulk.tensor", alias = "cp_async_bulk_tensor_2d_shared_to_global")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn shared_to_global<T, const RANK: usize>(map: &TensorMap, at: [i32; RANK], shared: *const T) {
    const { assert!(RANK >= 1 && RANK <= 5, "1 to 5 dimensions") };
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller guarantees valid memory and a valid map.
    unsafe {
        device::shared_to_global(map, at, shared.cast());
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: the caller guarantees valid memory and a valid map.
    unsafe {
        host::shared_to_global(map, &at, shared.cast());
    }
}

/// Prefetches the map for the TMA unit, before the first copy needs it (PTX ISA, `prefetch.tensormap`).
#[doc(alias = "prefetch.tensormap", alias = "prefetch_tma_descriptor")]
#[inline(always)]
pub fn prefetch(map: &TensorMap) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction reads nothing into the program.
    unsafe {
        core::arch::asm!("prefetch.tensormap [{}];", in(reg64) map, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = map;
}
