//! Bulk copies, which one thread starts, for compute capability 9.0 and later.

use cuda_std::barrier::Barrier;
use cuda_std::mem::f32x4;
use cuda_std::{bulk, shared_array};

kernels! { min_arch = 90;
    // The values are read again after the wait.
    //@ sm_90: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes == 1
    //@ sm_90: fence.mbarrier_init.release.cluster == 1
    //@ sm_90: mbarrier.arrive.expect_tx.shared.b64 == 1
    //@ sm_90: ld.shared == 1
    //@ sm_90: st.shared == 1
    bulk_to_shared(inp: *const f32x4, out: *mut f32) {
        let (tile, ready) = (shared_array![f32x4; 32], shared_array![Barrier; 1]);
        let value = tile.cast::<f32>();
        *value = 1.0;
        Barrier::init(ready, 1);
        Barrier::fence_init();
        Barrier::arrive_expect_tx(ready, 512);
        bulk::global_to_shared(tile, inp, 32, ready);
        Barrier::wait_parity(ready, 0);
        *out = *value;
    }

    // Writes before the fence are kept, and accesses after the wait stay there.
    //@ sm_90: fence.proxy.async.shared::cta == 1
    //@ sm_90: cp.async.bulk.global.shared::cta.bulk_group == 1
    //@ sm_90: cp.async.bulk.commit_group == 1
    //@ sm_90: cp.async.bulk.wait_group.read 1 == 1
    //@ sm_90: cp.async.bulk.wait_group 0 == 1
    //@ sm_90: st.shared == 2
    bulk_to_global(out: *mut f32x4, count: u32) {
        let tile = shared_array![f32x4; 32];
        *tile.cast::<f32>() = 1.0;
        bulk::fence_shared();
        bulk::shared_to_global(out, tile, count);
        bulk::commit();
        bulk::wait_read::<1>();
        *tile.cast::<f32>() = 2.0;
        bulk::wait::<0>();
    }

    // Writes before the fence are kept.
    //@ sm_90: st.global == 1
    //@ sm_90: fence.proxy.async.global == 1
    bulk_from_what_was_written(out: *mut f32x4) {
        let (tile, ready) = (shared_array![f32x4; 1], shared_array![Barrier; 1]);
        *out.cast::<f32>() = 1.0;
        bulk::fence_global();
        bulk::global_to_shared(tile, out, 1, ready);
    }
}
