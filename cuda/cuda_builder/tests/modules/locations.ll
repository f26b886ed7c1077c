; Two checks of a bound, as rustc and the edits write them; the locations are those of lines 7 and 9.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

@__ferrowarp_panic_slot = global ptr null, align 8
@__constant_0 = private unnamed_addr constant [5 x i8] c"a.rs\00", align 1
@__constant_1 = private unnamed_addr constant <{ ptr, [16 x i8] }> <{ ptr @__constant_0, [16 x i8] c"\04\00\00\00\00\00\00\00\07\00\00\00\05\00\00\00" }>, align 8
@__constant_2 = private unnamed_addr constant <{ ptr, [16 x i8] }> <{ ptr @__constant_0, [16 x i8] c"\04\00\00\00\00\00\00\00\09\00\00\00\0B\00\00\00" }>, align 8
define ptx_kernel void @two(ptr %x, i64 %len, i64 %i, i64 %j) {
start:
  %i_is_right = icmp ult i64 %i, %len
  br i1 %i_is_right, label %second, label %wrong_i

second:
  %j_is_right = icmp ult i64 %j, %len
  br i1 %j_is_right, label %write, label %wrong_j

write:
  %place = getelementptr i64, ptr %x, i64 %i
  store i64 %j, ptr %place, align 8
  ret void

wrong_i:
  call void @core__panicking__panic_bounds_check(i64 %i, i64 %len, ptr @__constant_1)
  unreachable

wrong_j:
  call void @core__panicking__panic_bounds_check(i64 %j, i64 %len, ptr @__constant_2)
  unreachable
}

define internal void @core__panicking__panic_bounds_check(i64 %index, i64 %len, ptr %location) #0 {
start:
  %record = load volatile ptr, ptr @__ferrowarp_panic_slot, align 8
  %line_at = getelementptr i8, ptr %location, i64 16
  %line = load i32, ptr %line_at, align 8
  %file = load ptr, ptr %location, align 8
  store ptr %file, ptr %record, align 8
  %to_line = getelementptr i8, ptr %record, i64 8
  store i32 %line, ptr %to_line, align 8
  %to_index = getelementptr i8, ptr %record, i64 16
  store i64 %index, ptr %to_index, align 8
  call void @llvm.trap()
  unreachable
}

declare void @llvm.trap()

attributes #0 = { noinline noreturn nounwind }
!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
