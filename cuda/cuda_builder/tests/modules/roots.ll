; The functions of libdevice that ask whether square roots are to be rounded (`__CUDA_PREC_SQRT`).
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

declare float @__nv_sqrtf(float)
declare float @__nv_hypotf(float, float)
declare float @__nv_norm3df(float, float, float)
declare float @__nv_norm4df(float, float, float, float)
declare float @__nv_normf(i32, ptr)
declare float @__nv_jnf(i32, float)

define ptx_kernel void @roots(float %x, float %y, ptr %numbers, i32 %n, ptr %out) {
start:
  %root = call float @__nv_sqrtf(float %x)
  store float %root, ptr %out, align 4
  %hypot = call float @__nv_hypotf(float %x, float %y)
  %out.1 = getelementptr float, ptr %out, i64 1
  store float %hypot, ptr %out.1, align 4
  %norm3 = call float @__nv_norm3df(float %x, float %y, float %x)
  %out.2 = getelementptr float, ptr %out, i64 2
  store float %norm3, ptr %out.2, align 4
  %norm4 = call float @__nv_norm4df(float %x, float %y, float %x, float %y)
  %out.3 = getelementptr float, ptr %out, i64 3
  store float %norm4, ptr %out.3, align 4
  %norm = call float @__nv_normf(i32 %n, ptr %numbers)
  %out.4 = getelementptr float, ptr %out, i64 4
  store float %norm, ptr %out.4, align 4
  %bessel = call float @__nv_jnf(i32 %n, float %x)
  %out.5 = getelementptr float, ptr %out, i64 5
  store float %bessel, ptr %out.5, align 4
  ret void
}

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
