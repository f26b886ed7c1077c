; `x.wrapping_abs() >> 4` of an i16, as rustc writes it and as LLVM does after its passes. ptxas 13.0.88 gives 2048
; for `abs.s16` of -32768 and a shift by 4, instead of -2048.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

declare i16 @llvm.abs.i16(i16, i1)

define ptx_kernel void @absolutes(i16 %x, ptr %out) {
start:
  %negated = sub i16 0, %x
  %is_negative = icmp slt i16 %x, 0
  %chosen = select i1 %is_negative, i16 %negated, i16 %x
  %shifted = ashr i16 %chosen, 4
  store i16 %shifted, ptr %out, align 2
  %absolute = call i16 @llvm.abs.i16(i16 %x, i1 false)
  %shifted.1 = ashr i16 %absolute, 3
  %out.1 = getelementptr i16, ptr %out, i64 1
  store i16 %shifted.1, ptr %out.1, align 2
  ret void
}

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
