//! The position of a thread in the grid, barriers of a block, and memory fences.
//!
//! The compiler knows the range of the indices, so index arithmetic and bounds checks fold where the CUDA limits allow it
//! (CUDA programming guide, "technical specifications per compute capability").

#[cfg(not(target_arch = "nvptx64"))]
use crate::simt::context::{Barrier, Collective, WARP_SIZE, collective, current};

pub(crate) mod named;
#[cfg(not(feature = "glam"))]
mod vectors;
#[cfg(feature = "glam")]
use glam::{UVec2, UVec3};
pub use named::{arrive_named, arrive_named_aligned, sync_named, sync_named_aligned};
#[cfg(not(feature = "glam"))]
pub use vectors::{UVec2, UVec3};

#[cfg(target_arch = "nvptx64")]
mod device {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.barrier.cta.sync.all"]
        pub(super) fn barrier(id: u32);
        #[link_name = "llvm.nvvm.barrier.cta.red.popc.all"]
        pub(super) fn barrier_popc(id: u32, predicate: bool) -> u32;
        #[link_name = "llvm.nvvm.barrier.cta.red.and.all"]
        pub(super) fn barrier_and(id: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.barrier.cta.red.or.all"]
        pub(super) fn barrier_or(id: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.barrier0.popc"]
        pub(super) fn barrier_popc_aligned(predicate: u32) -> u32;
        #[link_name = "llvm.nvvm.barrier0.and"]
        pub(super) fn barrier_and_aligned(predicate: u32) -> u32;
        #[link_name = "llvm.nvvm.barrier0.or"]
        pub(super) fn barrier_or_aligned(predicate: u32) -> u32;
        #[link_name = "llvm.nvvm.membar.cta"]
        pub(super) fn membar_cta();
        #[link_name = "llvm.nvvm.membar.gl"]
        pub(super) fn membar_gl();
        #[link_name = "llvm.nvvm.membar.sys"]
        pub(super) fn membar_sys();
        #[link_name = "llvm.nvvm.nanosleep"]
        pub(super) fn nanosleep(nanos: u32);
    }
}

macro_rules! indices {
    ($($(#[$doc:meta])* $name:ident = $sreg:ident, $alias:literal, $min:literal..=$max:literal,
        |$context:ident| $host:expr;)*) => {$(
        $(#[$doc])*
        #[doc(alias = $alias)]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name() -> u32 {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: reading a special register has no precondition, and no launch exceeds these limits.
            unsafe {
                let value = core::arch::nvptx::$sreg();
                core::hint::assert_unchecked(($min..=$max).contains(&value));
                value
            }
            #[cfg(not(target_arch = "nvptx64"))]
            current(concat!("thread::", stringify!($name)), |$context| $host)
        }
    )*};
}

indices! {
    /// Position of the thread in its block along x, below 1024.
    thread_idx_x = _thread_idx_x, "%tid.x", 0..=1023, |c| c.thread_idx.x;
    /// Position of the thread in its block along y, below 1024.
    thread_idx_y = _thread_idx_y, "%tid.y", 0..=1023, |c| c.thread_idx.y;
    /// Position of the thread in its block along z, below 64.
    thread_idx_z = _thread_idx_z, "%tid.z", 0..=63, |c| c.thread_idx.z;
    /// Position of the block in the grid along x, below 2^31 - 1.
    block_idx_x = _block_idx_x, "%ctaid.x", 0..=0x7fff_fffe, |c| c.block_idx.x;
    /// Position of the block in the grid along y, below 65535.
    block_idx_y = _block_idx_y, "%ctaid.y", 0..=65534, |c| c.block_idx.y;
    /// Position of the block in the grid along z, below 65535.
    block_idx_z = _block_idx_z, "%ctaid.z", 0..=65534, |c| c.block_idx.z;
    /// Threads of a block along x, 1 to 1024.
    block_dim_x = _block_dim_x, "%ntid.x", 1..=1024, |c| c.block_dim.x;
    /// Threads of a block along y, 1 to 1024.
    block_dim_y = _block_dim_y, "%ntid.y", 1..=1024, |c| c.block_dim.y;
    /// Threads of a block along z, 1 to 64.
    block_dim_z = _block_dim_z, "%ntid.z", 1..=64, |c| c.block_dim.z;
    /// Blocks of the grid along x, 1 to 2^31 - 1.
    grid_dim_x = _grid_dim_x, "%nctaid.x", 1..=0x7fff_ffff, |c| c.grid_dim.x;
    /// Blocks of the grid along y, 1 to 65535.
    grid_dim_y = _grid_dim_y, "%nctaid.y", 1..=65535, |c| c.grid_dim.y;
    /// Blocks of the grid along z, 1 to 65535.
    grid_dim_z = _grid_dim_z, "%nctaid.z", 1..=65535, |c| c.grid_dim.z;
}

/// Position of the thread in its block.
#[doc(alias = "threadIdx")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn thread_idx() -> UVec3 {
    UVec3::new(thread_idx_x(), thread_idx_y(), thread_idx_z())
}

/// Position of the block in the grid.
#[doc(alias = "blockIdx")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn block_idx() -> UVec3 {
    UVec3::new(block_idx_x(), block_idx_y(), block_idx_z())
}

/// Threads of a block along each axis.
#[doc(alias = "blockDim")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn block_dim() -> UVec3 {
    UVec3::new(block_dim_x(), block_dim_y(), block_dim_z())
}

/// Blocks of the grid along each axis.
#[doc(alias = "gridDim")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn grid_dim() -> UVec3 {
    UVec3::new(grid_dim_x(), grid_dim_y(), grid_dim_z())
}

/// Returns a number that is unique to the thread in its launch, of one, two or three dimensions: the block's number,
/// counted x first, times the threads per block, plus the thread's number in its block, x first.
///
/// The arithmetic is in 32 bits: in a launch of over 2^32 threads numbers repeat.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn index() -> u32 {
    let (grid, block, dim, thread) = (grid_dim(), block_idx(), block_dim(), thread_idx());
    let block_id =
        block.x.wrapping_add(grid.x.wrapping_mul(block.y.wrapping_add(grid.y.wrapping_mul(block.z))));
    let thread_id = (thread.z * dim.y + thread.y) * dim.x + thread.x;
    block_id.wrapping_mul(dim.x * dim.y * dim.z).wrapping_add(thread_id)
}

/// Position of the thread in the whole launch along x.
///
/// The arithmetic is in 32 bits: in a launch of over 2^32 threads along x positions repeat.
/// [`LaunchConfig::cover`](crate::launch::LaunchConfig::cover) makes no such launch.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn index_1d() -> u32 {
    block_idx_x().wrapping_mul(block_dim_x()).wrapping_add(thread_idx_x())
}

/// Position of the thread in the whole launch along x and y. The arithmetic is in 32 bits, as in [`index_1d`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn index_2d() -> UVec2 {
    UVec2::new(index_1d(), block_idx_y().wrapping_mul(block_dim_y()).wrapping_add(thread_idx_y()))
}

/// Position of the thread in the whole launch along x, y and z. The arithmetic is in 32 bits, as in [`index_1d`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn index_3d() -> UVec3 {
    index_2d().extend(block_idx_z().wrapping_mul(block_dim_z()).wrapping_add(thread_idx_z()))
}

/// Returns whether this is the first thread of the first block.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn first() -> bool {
    block_idx() == UVec3::ZERO && thread_idx() == UVec3::ZERO
}

/// Lanes of a warp: 32 on every CUDA device.
#[doc(alias = "WARP_SZ")]
#[inline(always)]
pub const fn warp_size() -> u32 {
    32
}

/// Waits until all threads of the block have arrived, and makes their earlier writes to shared and global memory
/// visible to all of them.
///
/// All threads of the block that have not returned must reach the same call. If they do not, this is not undefined
/// behaviour: a device counts a thread at whichever of these barriers it reaches (PTX ISA, `barrier.sync` without
/// `.aligned`). So the block may go on too early, or wait forever; the executor reports it.
///
/// Compared with [`sync_threads_aligned`] it costs a branch that checks whether the warp is converged, and out-of-line
/// code for one that is not: with ptxas 13.0 `BRA.DIV` from compute capability 8.0 on, `BRA.CONV` on 7.5.
#[doc(alias = "barrier.sync", alias = "__syncthreads")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: without `.aligned` the instruction requires nothing of the other threads.
    unsafe {
        device::barrier(0);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    collective("thread::sync_threads", Collective::Barrier(Barrier::Sync));
}

/// [`sync_threads`] for converged warps: a single instruction.
///
/// # Safety
/// All threads of the block that have not returned reach this same call, the 32 of a warp together. An aligned barrier
/// that only some of them execute is undefined on the device (PTX ISA, `barrier.sync.aligned`); the executor reports it.
#[doc(alias = "bar.sync", alias = "barrier.sync.aligned")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_threads_aligned() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that all threads execute this.
    unsafe {
        core::arch::nvptx::_syncthreads();
    }
    #[cfg(not(target_arch = "nvptx64"))]
    collective("thread::sync_threads_aligned", Collective::Barrier(Barrier::Sync));
}

macro_rules! counting_barriers {
    ($($(#[$doc:meta])* $name:ident, $aligned:ident = $device:ident, $device_aligned:ident,
        $alias:literal, $cuda:literal, $host:ident;)*) => {$(
        $(#[$doc])*
        #[doc(alias = $cuda)]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name(predicate: u32) -> u32 {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: without `.aligned` the instruction requires nothing of the other threads.
            unsafe {
                u32::from(device::$device(0, predicate != 0))
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let barrier = Collective::Barrier(Barrier::$host(predicate != 0));
                collective(concat!("thread::", stringify!($name)), barrier).value as u32
            }
        }

        #[doc = concat!("[`", stringify!($name), "`] for warps that come here as one: a single instruction.")]
        ///
        /// # Safety
        /// Same as for [`sync_threads_aligned`].
        #[doc(alias = $alias)]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $aligned(predicate: u32) -> u32 {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the caller promises that all threads execute this.
            unsafe {
                device::$device_aligned(predicate)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let barrier = Collective::Barrier(Barrier::$host(predicate != 0));
                collective(concat!("thread::", stringify!($aligned)), barrier).value as u32
            }
        }
    )*};
}

counting_barriers! {
    /// [`sync_threads`] that returns the number of the block's threads with a nonzero `predicate`.
    sync_threads_count, sync_threads_count_aligned = barrier_popc, barrier_popc_aligned,
        "bar.red.popc.u32", "__syncthreads_count", Count;
    /// [`sync_threads`] that returns 1 if every thread of the block has a nonzero `predicate`, else 0.
    sync_threads_and, sync_threads_and_aligned = barrier_and, barrier_and_aligned,
        "bar.red.and.pred", "__syncthreads_and", And;
    /// [`sync_threads`] that returns 1 if any thread of the block has a nonzero `predicate`, else 0.
    sync_threads_or, sync_threads_or_aligned = barrier_or, barrier_or_aligned,
        "bar.red.or.pred", "__syncthreads_or", Or;
}

macro_rules! fences {
    ($($(#[$doc:meta])* $name:ident = $device:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: a fence has no precondition.
            unsafe {
                device::$device();
            }
            #[cfg(not(target_arch = "nvptx64"))]
            core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        }
    )*};
}

fences! {
    /// Orders this thread's memory accesses before and after, as the threads of its block see them. It does not wait. On
    /// compute capability 7.0 and later it is `fence.sc.cta` (PTX ISA, `membar`).
    #[doc(alias = "membar.cta", alias = "__threadfence_block")]
    block_fence = membar_cta;
    /// Orders this thread's memory accesses before and after, as all threads of the device see them. It does not wait. On
    /// compute capability 7.0 and later it is `fence.sc.gpu` (PTX ISA, `membar`).
    #[doc(alias = "membar.gl", alias = "__threadfence")]
    device_fence = membar_gl;
    /// Orders this thread's memory accesses before and after, as all threads of the grid see them: the same instruction
    /// as [`device_fence`], since a grid runs on one device.
    #[doc(alias = "membar.gl")]
    grid_fence = membar_gl;
    /// Orders this thread's memory accesses before and after, as all threads of all devices and of the host
    /// see them. It does not wait. On compute capability 7.0 and later it is `fence.sc.sys` (PTX ISA,
    /// `membar`).
    #[doc(alias = "membar.sys", alias = "__threadfence_system")]
    system_fence = membar_sys;
}

/// Suspends the thread for about `nanos` nanoseconds: from 0 to twice `nanos`, at most a millisecond (PTX ISA,
/// `nanosleep`). The executor only gives up the rest of the core's time slice.
#[doc(alias = "nanosleep.u32", alias = "__nanosleep")]
#[inline(always)]
pub fn nanosleep(nanos: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        device::nanosleep(nanos);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = nanos;
        crate::simt::context::check_time();
        crate::simt::context::with_running(|context| context.channel.look_for_end());
        std::thread::yield_now();
    }
}

#[cfg(not(target_arch = "nvptx64"))]
const _: () = assert!(WARP_SIZE == 32);
