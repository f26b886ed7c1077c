//! Copies that go on while the thread does other work, for compute capability 8.0 and later.

use cuda_std::mem::{f32x2, f32x4};
use cuda_std::pipeline;

kernels! { min_arch = 80;
    //@ sm_80: cp.async.ca.shared.global _, _, 4 == 1
    //@ sm_80: cp.async.ca.shared.global _, _, 8 == 1
    //@ sm_80: cp.async.ca.shared.global _, _, 16 == 1
    //@ sm_80: cp.async.cg.shared.global _, _, 16 == 2
    //@ sm_80: cp.async.cg.shared.global.L2::128B _, _, 16 == 1
    //@ sm_80: cp.async.commit_group == 1
    //@ sm_80: cp.async.wait_group 1 == 1
    //@ sm_80: cp.async.wait_all == 1
    copies_of_all_sizes(inp: *const f32x4) {
        let tile = cuda_std::shared_array![f32x4; 5];
        pipeline::memcpy_async(tile.cast::<f32>(), inp.cast());
        pipeline::memcpy_async(tile.add(1).cast::<f32x2>(), inp.cast());
        pipeline::memcpy_async(tile.add(2), inp);
        pipeline::memcpy_async_l2(tile.add(3), inp);
        pipeline::memcpy_async_l2_128(tile.add(4), inp);
        pipeline::commit();
        pipeline::wait_prior::<1>();
        pipeline::wait_all();
    }

    //@ sm_80: cp.async.ca.shared.global _, _, 8, _ == 1
    //@ sm_80: cp.async.cg.shared.global _, _, 16, _ == 2
    //@ sm_80: cp.async.cg.shared.global.L2::128B _, _, 16, _ == 1
    copies_with_zeros(inp: *const f32x4, bytes: u32) {
        let tile = cuda_std::shared_array![f32x4; 3];
        pipeline::memcpy_async_zfill(tile.cast::<f32x2>(), inp.cast(), bytes);
        pipeline::memcpy_async_l2_zfill(tile.add(1), inp, bytes);
        pipeline::memcpy_async_l2_128_zfill(tile.add(2), inp, bytes);
    }

    // The values are read again after the wait.
    //@ sm_80: cp.async == 2
    //@ sm_80: ld.shared.b32 == 1
    //@ sm_80: st.shared.b32 == 1
    copies_are_seen(inp: *const f32, out: *mut f32) {
        let value = cuda_std::shared_array![f32; 1];
        *value = 1.0;
        pipeline::memcpy_async(value, inp);
        pipeline::wait_all();
        *out = *value;
    }
}
