//! 16-bit numbers.

use cuda_std::half::{self, bf16, f16};

kernels! {
    //@ ptx: cvt.f32.f16 == 1
    //@ ptx: ld.global.b16 == 1
    half_f16_to_f32(out: *mut f32, a: *const f16) { *out = half::f16_to_f32(*a); }

    //@ ptx: cvt.rn.f16.f32 == 1
    //@ ptx: st.global.b16 == 1
    half_f32_to_f16(out: *mut f16, x: f32) { *out = half::f32_to_f16(x); }

    //@ ptx: shl.b32 _, _, 16 == 1
    //@ ptx: cvt.f32 == 0
    half_bf16_to_f32(out: *mut f32, a: *const bf16) { *out = half::bf16_to_f32(*a); }

    //@ sm_80: cvt.rn.bf16.f32 == 1
    //@ sm_75: cvt.rn.bf16 == 0
    half_f32_to_bf16(out: *mut bf16, x: f32) { *out = half::f32_to_bf16(x); }

    //@ ptx: cvt.f32.f16 == 2
    half_f16x2_to_f32(out: *mut [f32; 2], pair: u32) { *out = half::f16x2_to_f32(pair); }

    //@ ptx: shl.b32 _, _, 16 == 1
    //@ ptx: and.b32 _, _, -65536 == 1
    //@ ptx: cvt.f32 == 0
    half_bf16x2_to_f32(out: *mut [f32; 2], pair: u32) { *out = half::bf16x2_to_f32(pair); }

    //@ sm_80: cvt.rn.f16x2.f32 == 1
    //@ sm_75: cvt.rn.f16.f32 == 2
    half_f32_to_f16x2(out: *mut u32, low: f32, high: f32) { *out = half::f32_to_f16x2([low, high]); }

    //@ sm_80: cvt.rn.bf16x2.f32 == 1
    //@ sm_75: cvt.rn.bf16x2.f32 == 0
    half_f32_to_bf16x2(out: *mut u32, low: f32, high: f32) { *out = half::f32_to_bf16x2([low, high]); }

    //@ sm_80: max.f16x2 == 1
    //@ sm_75: cvt.rn.f16.f32 == 2
    half_f16x2_max(out: *mut u32, a: u32, b: u32) { *out = half::f16x2_max(a, b); }

    //@ sm_80: max.bf16x2 == 1
    //@ sm_75: max.f32 == 2
    half_bf16x2_max(out: *mut u32, a: u32, b: u32) { *out = half::bf16x2_max(a, b); }
}
