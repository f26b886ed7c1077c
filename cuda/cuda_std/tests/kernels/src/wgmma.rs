//! Multiplications by a warpgroup, and copies of tiles, for `compute_90a` and for compute capability 9.0 and later.

use cuda_std::barrier::Barrier;
use cuda_std::half::{bf16, f16};
use cuda_std::mma::tf32;
use cuda_std::tensor::{self, TensorMap};
use cuda_std::wgmma::{self, Accumulator, FragmentA, Panel, e4m3};
use cuda_std::{bulk, shared, shared_array};

kernels! { arch = "90a";
    // 128 accumulators stay in registers. The loop is unrolled.
    //@ sm_90a: wgmma.fence.sync.aligned >= 1
    //@ sm_90a: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 >= 4
    //@ sm_90a: wgmma.commit_group.sync.aligned >= 1
    //@ sm_90a: wgmma.wait_group.sync.aligned 1 >= 1
    //@ sm_90a: wgmma.wait_group.sync.aligned 0 == 1
    //@ sm_90a: .local == 0
    wgmma_tile(out: *mut f32, steps: u32) {
        let a = shared::dynamic_shared_mem_aligned::<Panel<bf16, 128>>();
        let b = a.add(1).cast::<Panel<bf16, 256>>();
        let mut pending = Accumulator::<128>::ZERO.start();
        let mut i = 0;
        while i < steps {
            let (a, b) = (Panel::k_major::<64>(a, 64), Panel::k_major::<256>(b, 0));
            wgmma::fence();
            pending.multiply_keeping(i > 0, a, b);
            pending.multiply(a.step(1), b.step(1));
            pending.multiply(a.step(2), b.step(2));
            pending.multiply(a.step(3), b.step(3));
            wgmma::commit();
            wgmma::wait::<1>();
            i += 1;
        }
        pending.finish::<0>().for_each(|row, column, x| *out.add(256 * row + column) = x);
    }

    // The accumulators of one multiplication become the A of the next one.
    //@ sm_90a: wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 == 1
    //@ sm_90a: wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 == 2
    //@ sm_90a: cvt.rn.f16x2.f32 == 8
    //@ sm_90a: .local == 0
    wgmma_registers(out: *mut f32) {
        let a = shared::dynamic_shared_mem_aligned::<Panel<f16, 64>>();
        let b = a.add(1).cast::<Panel<f16, 32>>();
        let mut pending = Accumulator::<16>::ZERO.start();
        wgmma::fence();
        pending.multiply(Panel::mn_major::<64>(a), Panel::k_major::<32>(b, 0));
        wgmma::commit();
        let scores = pending.finish::<0>();
        let (first, second) = (scores.fragment::<f16>(0), scores.fragment::<f16>(1));
        let mut pending = Accumulator::<32>::ZERO.start();
        wgmma::fence();
        let v = Panel::mn_major::<64>(b);
        pending.multiply(first, v);
        pending.multiply(second, v.step(1));
        wgmma::commit();
        pending.finish::<0>().for_each(|row, column, x| *out.add(64 * row + column) = x);
    }

    //@ sm_90a: wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 == 2
    //@ sm_90a: wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 == 2
    //@ sm_90a: cvt.rn.satfinite.e4m3x2.f32 == 1
    wgmma_other_types(out: *mut [f32; 4], x: f32) {
        let a = shared_array![Panel<tf32, 64>; 1];
        let mut pending = Accumulator::<4>(*out).start();
        let fragment = FragmentA::from_registers([1, 2, 3, 4]);
        let bytes = FragmentA::from_registers([e4m3::from_f32(x).to_bits().into(), 2, 3, 4]);
        wgmma::fence();
        let b = Panel::k_major::<8>(a, 0);
        pending.multiply(Panel::k_major::<64>(a, 0), b);
        pending.multiply(fragment, b);
        let a = a.cast::<Panel<e4m3, 64>>();
        let b = Panel::k_major::<8>(a, 8);
        pending.multiply(Panel::k_major::<64>(a, 0), b);
        pending.multiply(bytes, b);
        wgmma::commit();
        *out = pending.finish::<0>().0;
    }

    //@ sm_90a: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster == 1
    //@ sm_90a: .local == 0
    tensor_multicast(map: TensorMap, x: i32) {
        let (tile, ready) = (shared_array![Panel<bf16, 8>; 1], shared_array![Barrier; 1]);
        tensor::global_to_shared_multicast(tile, &map, [x, 1], ready, 3);
    }
}

kernels! { min_arch = 90;
    // The map is read in place, where the launch put it.
    //@ sm_90: prefetch.tensormap == 1
    //@ sm_90: cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes == 1
    //@ sm_90: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes == 1
    //@ sm_90: cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes == 1
    //@ sm_90: cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes == 1
    //@ sm_90: cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes == 1
    //@ sm_90: .local == 0
    tensor_to_shared(map: TensorMap, x: i32) {
        let (tile, ready) = (shared_array![Panel<bf16, 8>; 1], shared_array![Barrier; 1]);
        tensor::prefetch(&map);
        tensor::global_to_shared(tile, &map, [x], ready);
        tensor::global_to_shared(tile, &map, [x, 1], ready);
        tensor::global_to_shared(tile, &map, [x, 1, 2], ready);
        tensor::global_to_shared(tile, &map, [x, 1, 2, 3], ready);
        tensor::global_to_shared(tile, &map, [x, 1, 2, 3, 4], ready);
    }

    //@ sm_90: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group == 1
    //@ sm_90: cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group == 1
    //@ sm_90: cp.async.bulk.commit_group == 1
    //@ sm_90: .local == 0
    tensor_to_global(map: TensorMap, x: i32) {
        let tile = shared_array![Panel<bf16, 8>; 1];
        bulk::fence_shared();
        tensor::shared_to_global(&map, [x, 1], tile);
        tensor::shared_to_global(&map, [x, 1, 2], tile);
        bulk::commit();
        bulk::wait_read::<0>();
    }
}
