; Zeros in an array of 17 numbers, then 1 at the end of each chunk of four, as chunks_mut goes; the last number is the
; result, and it is 1. The array's address is stored beside a parameter that is noalias, for a function that is not
; inlined. libNVVM 13.5.37 makes 0 of it, unless the parameter is not stored, or not noalias.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @last(ptr noalias %input, ptr %out) {
start:
  %pair = alloca [16 x i8], align 8
  %array = alloca [136 x i8], align 8
  call void @llvm.memset.p0.i64(ptr align 8 %array, i8 0, i64 136, i1 false)
  br label %next

next:
  %left = phi i64 [ 17, %start ], [ %rest, %body ]
  %at = phi ptr [ %array, %start ], [ %behind, %body ]
  %none = icmp eq i64 %left, 0
  br i1 %none, label %chosen, label %some

some:
  %count = call i64 @llvm.umin.i64(i64 %left, i64 4)
  %after = getelementptr inbounds nuw i64, ptr %at, i64 %count
  %fewer = sub i64 %left, %count
  br label %chosen

chosen:
  %rest = phi i64 [ 0, %next ], [ %fewer, %some ]
  %behind = phi ptr [ %at, %next ], [ %after, %some ]
  %len = phi i64 [ 0, %next ], [ %count, %some ]
  %chunk = phi ptr [ null, %next ], [ %at, %some ]
  %is_end = icmp eq ptr %chunk, null
  br i1 %is_end, label %end, label %body

body:
  %beyond = getelementptr i64, ptr %chunk, i64 %len
  %final = getelementptr i8, ptr %beyond, i64 -8
  store i64 1, ptr %final, align 8
  br label %next

end:
  store ptr %array, ptr %pair, align 8
  %second = getelementptr inbounds nuw i8, ptr %pair, i64 8
  store ptr %input, ptr %second, align 8
  call void @look(ptr %pair)
  %address = getelementptr inbounds nuw i8, ptr %array, i64 128
  %value = load i64, ptr %address, align 8
  store i64 %value, ptr %out, align 8
  ret void
}

define void @look(ptr readonly captures(none) %pair) noinline {
  %seen = load volatile i8, ptr %pair, align 8
  ret void
}

declare void @llvm.memset.p0.i64(ptr writeonly captures(none), i8, i64, i1 immarg)
declare i64 @llvm.umin.i64(i64, i64)

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
