//! Barriers in shared memory, for compute capability 8.0 and later.

use cuda_std::barrier::Barrier;
use cuda_std::shared_array;

kernels! { min_arch = 80;
    //@ sm_80: mbarrier.init.shared.b64 == 1
    //@ sm_80: mbarrier.arrive.shared.b64 == 1
    //@ sm_80: mbarrier.test_wait.shared.b64 == 1
    //@ sm_80: mbarrier.inval.shared.b64 == 1
    barriers_by_token(count: u32) {
        let barrier = shared_array![Barrier; 1];
        Barrier::init(barrier, count);
        let token = Barrier::arrive(barrier);
        Barrier::wait(barrier, token);
        Barrier::inval(barrier);
    }

    //@ sm_80: mbarrier.test_wait.parity.shared.b64 == 1
    barriers_by_parity(out: *mut bool) { *out = Barrier::test_wait_parity(shared_array![Barrier; 1], 1); }

    // The values are read again after the wait.
    //@ sm_90: mbarrier.try_wait.parity.shared.b64 == 1
    //@ sm_80: ld.shared.b32 == 1
    //@ sm_80: st.shared.b32 == 1
    barriers_are_waited_for(out: *mut u32, parity: u32) {
        let value = shared_array![u32; 1];
        *value = *out;
        Barrier::wait_parity(shared_array![Barrier; 1], parity);
        *out = *value;
    }
}

kernels! { min_arch = 90;
    //@ sm_90: mbarrier.arrive.expect_tx.shared.b64 == 1
    //@ sm_90: mbarrier.expect_tx.relaxed.cta.shared::cta.b64 == 1
    //@ sm_90: mbarrier.complete_tx.relaxed.cta.shared::cta.b64 == 1
    barriers_of_bytes(bytes: u32) {
        let barrier = shared_array![Barrier; 1];
        Barrier::arrive_expect_tx(barrier, bytes);
        Barrier::expect_tx(barrier, bytes);
        Barrier::complete_tx(barrier, bytes);
    }
}
