//! Tensor cores, for compute capability 8.0 and later.

use cuda_std::half::{bf16, f16};
use cuda_std::mma::{self, FragmentA, FragmentB, FragmentC, tf32};

kernels! { min_arch = 80;
    //@ sm_80: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 == 1
    tensor_f16(out: *mut FragmentC, a: FragmentA<f16>, b: FragmentB<f16>) {
        *out = mma::mma_sync(a, b, *out);
    }

    //@ sm_80: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 == 1
    tensor_bf16(out: *mut FragmentC, a: FragmentA<bf16>, b: FragmentB<bf16>) {
        *out = mma::mma_sync(a, b, *out);
    }

    //@ sm_80: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 == 1
    tensor_tf32(out: *mut FragmentC, a: FragmentA<tf32>, b: FragmentB<tf32>) {
        *out = mma::mma_sync(a, b, *out);
    }

    // Fragments in registers: no local memory.
    //@ sm_80: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 == 6
    //@ sm_80: st.local == 0
    tensor_tiles(out: *mut [[FragmentC; 3]; 2], a: *const [FragmentA<f16>; 2], b: *const [FragmentB<f16>; 3]) {
        let mut c = *out;
        mma::mma_sync_tiles(&*a, &*b, &mut c);
        *out = c;
    }

    //@ sm_80: cvt.rna.tf32.f32 == 1
    tensor_to_tf32(out: *mut tf32, x: f32) { *out = tf32::from_f32(x); }

    //@ sm_80: ldmatrix.sync.aligned.m8n8.x1.shared.b16 == 1
    //@ sm_80: ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 == 1
    //@ sm_80: ldmatrix.sync.aligned.m8n8.x4.shared.b16 == 1
    tensor_ldmatrix(out: *mut u32) {
        let tile = cuda_std::shared_array![u32; 128];
        let [a] = mma::ldmatrix::<1, _>(tile);
        let [b, c] = mma::ldmatrix_trans::<2, _>(tile);
        let [d, e, f, g] = mma::ldmatrix::<4, _>(tile);
        *out = a + b + c + d + e + f + g;
    }

    //@ sm_80: movmatrix.sync.aligned.m8n8.trans.b16 == 1
    tensor_movmatrix(out: *mut u32) { *out = mma::movmatrix_trans(*out); }
}

kernels! { min_arch = 90;
    //@ sm_90: stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 == 1
    //@ sm_90: stmatrix.sync.aligned.m8n8.x2.shared.b16 == 1
    //@ sm_90: stmatrix.sync.aligned.m8n8.x4.shared.b16 == 1
    tensor_stmatrix(x: u32) {
        let tile = cuda_std::shared_array![u32; 128];
        mma::stmatrix_trans(tile, [x]);
        mma::stmatrix(tile, [x, 1]);
        mma::stmatrix(tile, [x, 1, 2, 3]);
    }
}
