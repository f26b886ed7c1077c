//! Copies of many bytes that one thread starts, for compute capability 9.0 and later.

use cuda_std::barrier::Barrier;
use cuda_std::mem::f32x4;
use cuda_std::{bulk, shared_array};

kernels! { min_arch = 90;
    // What is read after the wait is read anew.
    //@ sm_90: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes == 1
    //@ sm_90: mbarrier.arrive.expect_tx.shared.b64 == 1
    //@ sm_90: ld.shared == 1
    //@ sm_90: st.shared == 1
    bulk_to_shared(inp: *const f32x4, out: *mut f32) {
        let (tile, ready) = (shared_array![f32x4; 32], shared_array![Barrier; 1]);
        let value = tile.cast::<f32>();
        *value = 1.0;
        Barrier::arrive_expect_tx(ready, 512);
        bulk::global_to_shared(tile, inp, 32, ready);
        Barrier::wait_parity(ready, 0);
        *out = *value;
    }
}
