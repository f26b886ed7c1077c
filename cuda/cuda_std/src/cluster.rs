//! Thread-block clusters: blocks that run at the same time and access each other's shared memory (compute capability
//! 9.0 and later).
//!
//! A launch [`with_cluster`](crate::launch::LaunchConfig::with_cluster) makes neighbouring blocks along x a cluster;
//! without it, each block is its own cluster. A kernel that uses this module is a `#[kernel(min_arch = 90)]`.
//!
//! The shared memory of another block exists from its start to its end. So all threads of the cluster meet at its barrier
//! before the first access and after the last one. The barrier has two halves, so threads can do other work between them.

#[cfg(not(target_arch = "nvptx64"))]
use core::sync::atomic::Ordering;

#[cfg(not(target_arch = "nvptx64"))]
use crate::simt::block::Member;
#[cfg(not(target_arch = "nvptx64"))]
use crate::simt::context::{Collective, ThreadContext, collective, current, refuse, unwinds};

mod store;

pub use store::store_async;

#[cfg(target_arch = "nvptx64")]
mod device {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.read.ptx.sreg.cluster.ctarank"]
        pub(super) fn ctarank() -> u32;
        #[link_name = "llvm.nvvm.read.ptx.sreg.cluster.nctarank"]
        pub(super) fn nctarank() -> u32;
        #[link_name = "llvm.nvvm.barrier.cluster.arrive"]
        pub(super) fn arrive();
        #[link_name = "llvm.nvvm.barrier.cluster.arrive.relaxed"]
        pub(super) fn arrive_relaxed();
        #[link_name = "llvm.nvvm.barrier.cluster.wait"]
        pub(super) fn wait();
    }
}

/// Returns the block's rank in its cluster, below [`num_blocks`].
#[doc(alias = "%cluster_ctarank", alias = "cluster.block_rank")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn block_rank() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: reading a special register has no precondition, and no cluster has more than 16 blocks.
    unsafe {
        let rank = device::ctarank();
        core::hint::assert_unchecked(rank < 16);
        rank
    }
    #[cfg(not(target_arch = "nvptx64"))]
    current("cluster::block_rank", |context| context.block_idx.x % context.cluster().len() as u32)
}

/// Returns the number of blocks of the cluster, 1 to 16.
#[doc(alias = "%cluster_nctarank", alias = "cluster.num_blocks")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn num_blocks() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: reading a special register has no precondition, and a cluster has 1 to 16 blocks.
    unsafe {
        let blocks = device::nctarank();
        core::hint::assert_unchecked(1 <= blocks && blocks <= 16);
        blocks
    }
    #[cfg(not(target_arch = "nvptx64"))]
    current("cluster::num_blocks", |context| context.cluster().len() as u32)
}

/// Waits until all threads of the cluster have arrived. Makes their earlier writes to the shared memory of any block
/// and to global memory visible to all of them.
///
/// # Safety
/// All threads of the cluster reach this same call, and none makes it between an arrival and its wait (the executor
/// reports the violations that it detects).
#[doc(alias = "barrier.cluster", alias = "cluster.sync")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that all threads execute this.
    unsafe {
        device::arrive();
        device::wait();
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        note_arrival("cluster::sync", true);
        wait_named("cluster::sync");
    }
}

/// The first half of [`sync`]: signals the thread's arrival, releases its earlier writes, and does not wait.
///
/// # Safety
/// Same as for [`sync`]; the thread's next call of this module's barriers is [`wait`].
#[doc(alias = "barrier.cluster.arrive", alias = "cluster.barrier_arrive")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn arrive() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that all threads execute this.
    unsafe {
        device::arrive();
    }
    #[cfg(not(target_arch = "nvptx64"))]
    note_arrival("cluster::arrive", true);
}

/// Same as [`arrive`], but does not release earlier writes. It suffices to know that all blocks have started.
///
/// # Safety
/// Same as for [`arrive`].
#[doc(alias = "barrier.cluster.arrive.relaxed")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn arrive_relaxed() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that all threads execute this.
    unsafe {
        device::arrive_relaxed();
    }
    #[cfg(not(target_arch = "nvptx64"))]
    note_arrival("cluster::arrive_relaxed", false);
}

/// The second half of [`sync`]: waits until all threads of the cluster have arrived. On the executor it waits until
/// all of them wait.
///
/// # Safety
/// Same as for [`sync`]; the thread's last call of this module's barriers was an arrival.
#[doc(alias = "barrier.cluster.wait", alias = "cluster.barrier_wait")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn wait() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that all threads execute this.
    unsafe {
        device::wait();
    }
    #[cfg(not(target_arch = "nvptx64"))]
    wait_named("cluster::wait");
}

#[cfg(not(target_arch = "nvptx64"))]
#[inline]
#[track_caller]
fn note_arrival(name: &'static str, releases: bool) {
    let is_first = current(name, |context| context.channel.arrive_at_cluster(releases));
    if !is_first {
        refuse(name, "() after an arrival that was not waited for; call cluster::wait() first");
    }
}

#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
#[track_caller]
fn wait_named(name: &'static str) {
    let has_arrived = current(name, |context| context.channel.leave_for_cluster());
    if !has_arrived {
        refuse(name, "() without an arrival; call cluster::arrive() first");
    }
    collective(name, Collective::Cluster);
}

/// Returns a pointer to the counterpart of `pointer` in block `rank` of the cluster: the same variable in that block's
/// shared memory. Ordinary loads and stores accept the pointer.
///
/// The call is safe. The pointer is valid from the other block's start to its end, which the cluster's barriers ensure.
///
/// `pointer` must point to the block's own shared memory, a [`shared_array!`](crate::shared_array) or
/// [dynamic](crate::shared::dynamic_shared_mem), and `rank` must be below [`num_blocks`]. Otherwise the result is an
/// invalid pointer on the device, and the executor panics.
#[doc(alias = "mapa", alias = "cluster.map_shared_rank")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn map_shared<T>(pointer: *mut T, rank: u32) -> *mut T {
    #[cfg(target_arch = "nvptx64")]
    {
        let mapped: u64;
        // The address goes through an integer, so the compiler expects other code to access both variables.
        // SAFETY: the instruction computes an address and has no precondition (PTX ISA, `mapa`).
        unsafe {
            core::arch::asm!(
                "mapa.u64 {mapped}, {address}, {rank};",
                mapped = out(reg64) mapped,
                address = in(reg64) pointer.expose_provenance() as u64,
                rank = in(reg32) rank,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        core::ptr::with_exposed_provenance_mut(mapped as usize)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    match mapped(pointer.cast(), rank) {
        Ok(mapped) => mapped.cast(),
        Err(_) if unwinds() => pointer,
        Err(problem) => panic!("cluster::map_shared() {problem}"),
    }
}

/// Returns the executor's pointer, or what is wrong with the arguments.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn mapped(pointer: *mut u8, rank: u32) -> Result<*mut u8, String> {
    current("cluster::map_shared", |context| remote(context, pointer, rank).map(|(mapped, _)| mapped))
}

/// Returns the counterpart of `pointer` in block `rank` of the running thread's cluster, and that block, or what is
/// wrong with the arguments.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn remote<'a>(
    context: &'a ThreadContext<'_>,
    pointer: *mut u8,
    rank: u32,
) -> Result<(*mut u8, &'a Member), String> {
    let blocks = context.cluster().len();
    let member = context.cluster().get(rank as usize);
    let member = member.ok_or_else(|| format!("was asked for block {rank} of a cluster of {blocks}"))?;
    if member.has_ended.load(Ordering::Relaxed) {
        return Err(format!(
            "was asked for block {rank}, which has ended; let it wait at cluster::sync() for its last reader"
        ));
    }
    let mapped = context.shared().counterpart(pointer, &member.shared).ok_or_else(|| {
        "got a pointer that is not to the block's own shared memory; map a shared_array! or dynamic shared memory"
            .to_owned()
    })?;
    Ok((mapped, member))
}
