; `a.saturating_add(b) == 255` of u8, as rustc writes it. In the machine code of ptxas 13.0.88, two results share a predicate.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

declare i8 @llvm.uadd.sat.i8(i8, i8)

define ptx_kernel void @saturated(i8 %a, i8 %b, ptr %out) {
start:
  %sum = call i8 @llvm.uadd.sat.i8(i8 %a, i8 %b)
  %is_most = icmp eq i8 %sum, -1
  %chosen = select i1 %is_most, i8 78, i8 0
  store i8 %chosen, ptr %out, align 1
  %out.1 = getelementptr i8, ptr %out, i64 1
  store i8 %sum, ptr %out.1, align 1
  ret void
}

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
