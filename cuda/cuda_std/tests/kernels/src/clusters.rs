//! Clusters of blocks, for compute capability 9.0 and later.

use cuda_std::barrier::Barrier;
use cuda_std::mem::{f32x2, f32x4};
use cuda_std::{bulk, cluster, shared_array};

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

    // A write through the mapped pointer is read from the block's own variable: neither access is lost.
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

    //@ sm_90: st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 == 1
    //@ sm_90: st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 == 1
    //@ sm_90: st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 == 1
    //@ sm_90: mapa.shared::cluster.u64 == 6
    //@ sm_90: .local == 0
    cluster_store_async(inp: &[f32x4], rank: u32) {
        let (places, ready) = (shared_array![f32x4; 3], shared_array![Barrier; 1]);
        cluster::store_async(places.cast::<f32>(), inp[0].x, ready, rank);
        cluster::store_async(places.add(1).cast(), f32x2 { x: inp[1].x, y: inp[2].y }, ready, rank);
        cluster::store_async(places.add(2), inp[3], ready, rank);
    }

    //@ sm_90: cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes == 1
    //@ sm_90: mapa.shared::cluster.u64 == 2
    cluster_copy_in_bulk(rank: u32) {
        let (tiles, ready) = (shared_array![f32x4; 32], shared_array![Barrier; 1]);
        bulk::shared_to_shared(tiles, tiles.add(16), 16, ready, rank);
    }

    // Writes of other blocks before their arrival are read after the wait.
    //@ sm_90: fence.mbarrier_init.release.cluster == 1
    //@ sm_90: mbarrier.arrive.release.cluster.shared::cluster.b64 _, _ == 1
    //@ sm_90: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 == 1
    //@ sm_90: ld.shared.b32 == 1
    //@ sm_90: st.shared.b32 == 1
    cluster_barriers(out: *mut u32, rank: u32) {
        let (value, ready) = (shared_array![u32; 1], shared_array![Barrier; 1]);
        *value = *out;
        Barrier::fence_init();
        Barrier::arrive_remote(ready, rank);
        Barrier::wait_parity_cluster(ready, 0);
        *out = *value;
    }
}
