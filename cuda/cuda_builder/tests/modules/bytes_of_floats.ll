; Stores the bytes of numbers, as rustc writes `to_le_bytes` into memory without alignment. ptxas 13.0.88 gives 1 for the
; lowest byte of 1.5, which is 0.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @bytes(float %x, double %y, ptr %out) {
start:
  %sum = fadd float %x, %x
  store float %sum, ptr %out, align 1
  %product = fmul double %y, %y
  %out.1 = getelementptr i8, ptr %out, i64 5
  store double %product, ptr %out.1, align 1
  %out.2 = getelementptr i8, ptr %out, i64 14
  store float %sum, ptr %out.2, align 2
  %out.3 = getelementptr i8, ptr %out, i64 20
  store double %product, ptr %out.3, align 4
  ret void
}

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
