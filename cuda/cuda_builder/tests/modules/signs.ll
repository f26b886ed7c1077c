; Changes of the sign of floats that are stored, and one that is computed with. `neg.f32` and `abs.f32` of PTX do not keep the
; bits of a NaN.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @stored(ptr %x, ptr %out) {
  %a = load float, ptr %x, align 4
  %negated = fneg float %a
  store float %negated, ptr %out, align 4
  %absolute = call float @llvm.fabs.f32(float %a)
  %out.1 = getelementptr float, ptr %out, i64 1
  store float %absolute, ptr %out.1, align 4
  %signed = call float @llvm.copysign.f32(float %a, float -1.0)
  %out.2 = getelementptr float, ptr %out, i64 2
  store float %signed, ptr %out.2, align 4
  %x.2 = getelementptr double, ptr %x, i64 2
  %b = load double, ptr %x.2, align 8
  %negated.wide = fneg double %b
  %out.4 = getelementptr double, ptr %out, i64 2
  store double %negated.wide, ptr %out.4, align 8
  %absolute.wide = call double @llvm.fabs.f64(double %b)
  %out.6 = getelementptr double, ptr %out, i64 3
  store double %absolute.wide, ptr %out.6, align 8
  ret void
}

define ptx_kernel void @computed(ptr %x, ptr %out) {
  %a = load float, ptr %x, align 4
  %negated = fneg float %a
  %sum = call float @llvm.fma.f32(float %negated, float %a, float 1.0)
  store float %sum, ptr %out, align 4
  ret void
}

declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)
declare float @llvm.copysign.f32(float, float)
declare float @llvm.fma.f32(float, float, float)

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0}
