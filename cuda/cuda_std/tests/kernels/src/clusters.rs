//! Clusters of blocks, for compute capability 9.0 and later.

use cuda_std::{cluster, shared_array};

kernels! { min_arch = 90;
    //@ sm_90: mov.u32 _, %cluster_ctarank == 1
    //@ sm_90: mov.u32 _, %cluster_nctarank == 1
    cluster_place(out: *mut u32) { *out = cluster::block_rank() + cluster::num_blocks(); }

    // The barrier keeps both stores.
    //@ sm_90: barrier.cluster.arrive == 1
    //@ sm_90: barrier.cluster.wait == 1
    //@ sm_90: st.global == 2
    cluster_sync(out: *mut u32) { *out = 1; cluster::sync(); *out = 2; }

    //@ sm_90: barrier.cluster.arrive == 1
    //@ sm_90: barrier.cluster.wait == 1
    cluster_halves(out: *mut u32) { cluster::arrive(); *out = 1; cluster::wait(); }

    //@ sm_90: barrier.cluster.arrive.relaxed == 1
    //@ sm_90: barrier.cluster.wait == 1
    cluster_relaxed(out: *mut u32) { cluster::arrive_relaxed(); *out = 1; cluster::wait(); }

    // What is written through the mapped pointer is read from the block's own variable: neither access is lost.
    //@ sm_90: mapa.u64 == 1
    //@ sm_90: st.b32 == 1
    //@ sm_90: barrier.cluster.wait == 1
    //@ sm_90: ld.shared.b32 == 1
    cluster_map_shared(out: *mut u32, rank: u32) {
        let value = shared_array![u32; 1];
        *cluster::map_shared(value, rank) = 5;
        cluster::sync();
        *out = *value;
    }
}
