; A table of `brx.idx` whose gaps lead to a block that is unreachable.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

define internal void @choose(ptr %out, i32 %n) noinline {
start:
  switch i32 %n, label %default [
    i32 0, label %a
    i32 1, label %b
    i32 3, label %c
    i32 4, label %d
    i32 9, label %e
  ]
a:
  store volatile i32 11, ptr %out
  ret void
b:
  store volatile i32 22, ptr %out
  br label %d
c:
  %x = load volatile i32, ptr %out
  store volatile i32 %x, ptr %out
  ret void
d:
  store volatile i64 44, ptr %out
  ret void
e:
  %y = load volatile i64, ptr %out
  store volatile i64 %y, ptr %out
  ret void
default:
  unreachable
}

define ptx_kernel void @pick(ptr %out, i32 %n) {
start:
  call void @choose(ptr %out, i32 %n)
  ret void
}

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
