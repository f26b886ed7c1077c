; A boolean that one path alone loads, and a word that holds it on both: rustc passes an enum so. The register of the
; boolean is then unwritten on the other path, and ptxas drops the mask that makes a word of it.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @payload(ptr %in, i32 %x, ptr %out) {
start:
  %has_none = icmp eq i32 %x, 0
  br i1 %has_none, label %join, label %load

load:
  %byte = load volatile i8, ptr %in, align 1
  %bit = and i8 %byte, 1
  br label %join

join:
  %payload = phi i8 [ undef, %start ], [ %bit, %load ]
  %word = zext i8 %payload to i32
  store i32 %word, ptr %out, align 4
  %end = getelementptr i8, ptr %out, i64 4
  store i8 %payload, ptr %end, align 4
  ret void
}

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
