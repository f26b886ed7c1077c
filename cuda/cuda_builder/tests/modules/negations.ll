; `a.max(-b).max(c)` and `a.min(-b).min(c)` of i32. For compute capability 9.0, ptxas 13.0.88 loses the negations.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

declare i32 @llvm.smax.i32(i32, i32)
declare i32 @llvm.smin.i32(i32, i32)

define ptx_kernel void @negations(i32 %a, i32 %b, i32 %c, ptr %out) {
start:
  %negative = sub i32 0, %b
  %larger = call i32 @llvm.smax.i32(i32 %a, i32 %negative)
  %largest = call i32 @llvm.smax.i32(i32 %larger, i32 %c)
  store i32 %largest, ptr %out, align 4
  %smaller = call i32 @llvm.smin.i32(i32 %a, i32 %negative)
  %smallest = call i32 @llvm.smin.i32(i32 %smaller, i32 %c)
  %out.1 = getelementptr i32, ptr %out, i64 1
  store i32 %smallest, ptr %out.1, align 4
  ret void
}

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
