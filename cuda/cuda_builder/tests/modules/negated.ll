; Two indices, each of which goes back by one element or by none: a boolean that is sign-extended, and its negation.
;
; LLVM's pass `slsr` takes their difference in `i1`, where it is always 1, and computes the second address from the first.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @pick(ptr %v, i32 %x, ptr %out) {
  %lt = icmp ult i32 %x, 7
  %ge = xor i1 %lt, true
  %m = sext i1 %ge to i64
  %p = getelementptr i64, ptr %v, i64 %m
  %a = load i64, ptr %p, align 8
  store i64 %a, ptr %out, align 8
  %n = sext i1 %lt to i64
  %q = getelementptr i64, ptr %v, i64 %n
  %b = load i64, ptr %q, align 8
  %second = getelementptr i8, ptr %out, i64 8
  store i64 %b, ptr %second, align 8
  ret void
}

; The same of a number that wraps in 8 bits.
define ptx_kernel void @wrap(ptr %v, i32 %x, ptr %out) {
  %narrow = trunc i32 %x to i8
  %next = add i8 %narrow, 1
  %m = sext i8 %narrow to i64
  %p = getelementptr i64, ptr %v, i64 %m
  %a = load i64, ptr %p, align 8
  store i64 %a, ptr %out, align 8
  %n = sext i8 %next to i64
  %q = getelementptr i64, ptr %v, i64 %n
  %b = load i64, ptr %q, align 8
  %second = getelementptr i8, ptr %out, i64 8
  store i64 %b, ptr %second, align 8
  ret void
}

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
