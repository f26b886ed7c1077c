; `lo == hi` of i8, where `hi` is in a loop later. ptxas 13.0.88 compares a sign-extended register with a zero-extended one.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

define internal i64 @count(i8 signext %lo, i8 signext %hi, ptr %out) noinline {
start:
  %is_empty = icmp sgt i8 %lo, %hi
  br i1 %is_empty, label %end, label %compare

compare:
  %is_one = icmp eq i8 %lo, %hi
  %number = select i1 %is_one, i64 2, i64 3
  br label %loop

loop:
  %k = phi i8 [ %hi, %compare ], [ %next, %again ]
  %wide = sext i8 %k to i64
  %before = load i64, ptr %out, align 8
  %after = xor i64 %before, %wide
  store i64 %after, ptr %out, align 8
  %is_least = icmp eq i8 %k, -128
  br i1 %is_least, label %end, label %again

again:
  %next = add i8 %k, -1
  %goes_on = icmp sge i8 %next, %lo
  br i1 %goes_on, label %loop, label %end

end:
  %result = phi i64 [ 1, %start ], [ %number, %loop ], [ %number, %again ]
  ret i64 %result
}

define ptx_kernel void @bytes(i8 %lo, i8 %hi, ptr %out) {
start:
  %counted = call i64 @count(i8 signext %lo, i8 signext %hi, ptr %out)
  %out.1 = getelementptr i64, ptr %out, i64 1
  store i64 %counted, ptr %out.1, align 8
  ret void
}

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
