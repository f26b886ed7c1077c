; Atomic operations on a thread's own memory, which libNVVM 13.5.37 replaces by `trap`, and LLVM 22 by an instruction that
; ptxas rejects; a fence for the compiler, on which LLVM 22 crashes; and an atomic operation on global memory.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

define internal i32 @add(ptr %a) noinline {
  %r = atomicrmw add ptr %a, i32 7 monotonic
  ret i32 %r
}

define ptx_kernel void @of_parameter(ptr %out) {
  %c = alloca i32
  store i32 3, ptr %c
  %r = call i32 @add(ptr %c)
  fence syncscope("singlethread") seq_cst
  %v = load i32, ptr %c
  %s = add i32 %r, %v
  store i32 %s, ptr %out
  ret void
}

define ptx_kernel void @of_array(ptr %out, i32 %n) {
  %c = alloca [8 x i32]
  %g = getelementptr i32, ptr %c, i32 %n
  store i32 3, ptr %g
  %r = atomicrmw add ptr %g, i32 %n seq_cst
  %h = getelementptr i32, ptr %c, i32 %r
  %p = cmpxchg ptr %h, i32 %n, i32 5 seq_cst seq_cst
  %v = load i32, ptr %g
  %s = add i32 %r, %v
  store i32 %s, ptr %out
  ret void
}

define ptx_kernel void @of_global(ptr %out) {
  %r = atomicrmw add ptr %out, i32 7 monotonic
  ret void
}

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0}
