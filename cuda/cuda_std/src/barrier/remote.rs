//! Barriers of other blocks of the cluster.

use super::Barrier;
#[cfg(not(target_arch = "nvptx64"))]
use super::{host, state::State};

impl Barrier {
    /// Counts an arrival at the counterpart of `this` in block `rank` of the cluster (compute capability 9.0 and later).
    /// Threads there wait with [`wait_parity_cluster`](Self::wait_parity_cluster) and then see what this thread did before.
    ///
    /// # Safety
    /// - See [the module](crate::barrier#safety-of-the-barriers), for the other block's barrier; `this` is its
    ///   counterpart here.
    /// - The other block has initialised it and does not end before the arrival. [Barriers of the
    ///   cluster](crate::cluster::sync) ensure both.
    #[doc(alias = "mbarrier.arrive.release.cluster.shared::cluster")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn arrive_remote(this: *mut Self, rank: u32) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            barrier_asm!("mapa.shared::cluster.u64 address, address, {rank}; \
                mbarrier.arrive.release.cluster.shared::cluster.b64 _, [address];", this, rank = in(reg32) rank,);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            let remote =
                host::checked("arrive_remote", host::remote("barrier::Barrier::arrive_remote", this, rank));
            host::change("arrive_remote", remote, State::arrive);
        }
    }

    /// Same as [`arrive_remote`](Self::arrive_remote), but orders none of the thread's accesses. Use it to pass on
    /// memory that only [`wgmma`](crate::wgmma) and copies have read, once the thread has waited for them. Threads
    /// there wait with [`wait_parity`](Self::wait_parity).
    ///
    /// On the device `arrive_remote` waits until all writes of the thread are visible to the whole GPU, which takes
    /// hundreds of cycles. On the executor both are the same, since threads themselves read for `wgmma`.
    ///
    /// # Safety
    /// Same as for [`arrive_remote`](Self::arrive_remote).
    #[doc(alias = "mbarrier.arrive.relaxed.cluster.shared::cluster")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn arrive_remote_relaxed(this: *mut Self, rank: u32) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            barrier_asm!("mapa.shared::cluster.u64 address, address, {rank}; \
                mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [address];", this, rank = in(reg32) rank,);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            let name = "barrier::Barrier::arrive_remote_relaxed";
            let remote = host::checked("arrive_remote_relaxed", host::remote(name, this, rank));
            host::change("arrive_remote_relaxed", remote, State::arrive);
        }
    }

    /// Same as [`wait_parity`](Self::wait_parity), and makes visible what other blocks of the cluster did before their
    /// arrivals (compute capability 9.0 and later).
    ///
    /// # Safety
    /// Same as for [`wait_parity`](Self::wait_parity).
    #[doc(alias = "mbarrier.try_wait.parity.acquire.cluster")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn wait_parity_cluster(this: *mut Self, parity: u32) {
        #[cfg(target_arch = "nvptx64")]
        loop {
            let holds: u32;
            // SAFETY: the caller guarantees a valid barrier.
            unsafe {
                barrier_asm!("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 holds, [address], {parity}; \
                    selp.u32 {holds}, 1, 0, holds;", this, parity = in(reg32) parity, holds = out(reg32) holds,);
            }
            if holds != 0 {
                break;
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            host::wait("barrier::Barrier::wait_parity_cluster", "wait_parity_cluster", this, parity);
        }
    }
}
