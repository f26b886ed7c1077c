; `numbers[if x == 0 { 0 } else { y % x }]`, twice: the second time if it was 0 and y is small. For x = 0 and y = 1, the
; result is 0, the first number. libNVVM 13.5.37 compares x with nothing, and takes `y % 0` for the index.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @pick(i64 %x, i64 %y, ptr %out) {
start:
  %numbers = alloca [16 x i8], align 8
  store i64 0, ptr %numbers, align 8
  %second = getelementptr i8, ptr %numbers, i64 8
  store i64 1, ptr %second, align 8
  %is_zero = icmp eq i64 %x, 0
  br i1 %is_zero, label %first_time, label %first_division

first_division:
  %remainder = urem i64 %y, %x
  br label %first_time

first_time:
  %index = phi i64 [ 0, %start ], [ %remainder, %first_division ]
  %place = getelementptr i64, ptr %numbers, i64 %index
  %number = load i64, ptr %place, align 8
  %is_first = icmp eq i64 %number, 0
  br i1 %is_first, label %is_y_small, label %end

is_y_small:
  %upper = lshr i64 %y, 5
  %is_small = icmp eq i64 %upper, 0
  br i1 %is_small, label %again, label %end

again:
  %is_zero_again = icmp eq i64 %x, 0
  br i1 %is_zero_again, label %second_time, label %second_division

second_division:
  %remainder_again = urem i64 %y, %x
  br label %second_time

second_time:
  %index_again = phi i64 [ 0, %again ], [ %remainder_again, %second_division ]
  %place_again = getelementptr i64, ptr %numbers, i64 %index_again
  %number_again = load i64, ptr %place_again, align 8
  store i64 %number_again, ptr %out, align 8
  br label %end

end:
  ret void
}

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
