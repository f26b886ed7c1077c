; edit: panics
define ptx_kernel void @k(i64 %i, i64 %n, ptr %message) unnamed_addr #0 {
start:
  br label %next

next:
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking18panic_bounds_check(i64 %i, i64 %n, ptr @location) #2
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr %message, ptr inttoptr (i64 25 to ptr), ptr @location) #2
  unreachable
}

define internal void @_RNvNtCsl3zjjZ8wCbR_4core9panicking18panic_bounds_check(i64 noundef %0, i64 noundef %1, ptr noalias noundef readonly align 8 captures(address, read_provenance) dereferenceable(24) %2) unnamed_addr #1 {
  %4 = alloca [16 x i8], align 8
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr %4, ptr %4, ptr %2) #2
  unreachable
}

define internal void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr noundef nonnull %0, ptr noundef nonnull %1, ptr %2) unnamed_addr #1 {
  call void @_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind(ptr %0) #3
  unreachable
}

define internal void @_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind(ptr noalias %info) unnamed_addr #4 {
start:
  call void @llvm.trap()
  unreachable
}

define internal void @_RNvNtCsl3zjjZ8wCbR_4core9panicking5panic(ptr noundef %0, i64 noundef %1, ptr %2) unnamed_addr #1 {
  %4 = shl i64 %1, 1
  %5 = or i64 %4, 1
  %6 = inttoptr i64 %5 to ptr
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr %0, ptr %6, ptr %2) #2
  unreachable
}

define internal void @_RNvNtCsl3zjjZ8wCbR_4core6option13expect_failed(ptr %0, i64 noundef %1, ptr %2) unnamed_addr #1 {
  %4 = alloca [16 x i8], align 8
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr %4, ptr %4, ptr %2) #2
  unreachable
}

define internal void @_RINvNtCsl3zjjZ8wCbR_4core9panicking13assert_failedmmECsaQthrnsOWmt_2fx(i8 noundef range(i8 0, 3) %kind, ptr %0, ptr %1, ptr noundef %args.0, ptr %args.1, ptr %2) unnamed_addr #1 {
start:
  unreachable
}

define internal void @_RNvNtNtCsl3zjjZ8wCbR_4core5slice5index16slice_index_fail(i64 %0, i64 %1, i64 %2, ptr %3) unnamed_addr #1 !dbg !4 {
start:
  unreachable
}

define void @__ferrowarp_panic_bounds_check(i64 %index, i64 %len, ptr %location) unnamed_addr #1 {
start:
  unreachable
}

declare void @llvm.trap() #5

attributes #0 = { nounwind }
attributes #1 = { cold noinline noreturn nounwind }
attributes #2 = { noinline noreturn nounwind }
attributes #3 = { noreturn nounwind }
attributes #4 = { noreturn nounwind }
attributes #5 = { cold noreturn nounwind }

; ---- becomes ----
define ptx_kernel void @k(i64 %i, i64 %n, ptr %message) unnamed_addr #0 {
start:
  br label %next

next:
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking18panic_bounds_check(i64 %i, i64 %n, ptr @location) #2
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr %message, ptr inttoptr (i64 25 to ptr), ptr @location) noreturn nounwind
  unreachable
}
define internal void @_RNvNtCsl3zjjZ8wCbR_4core9panicking18panic_bounds_check(i64 noundef %0, i64 noundef %1, ptr noalias noundef readonly align 8 captures(address, read_provenance) dereferenceable(24) %2) unnamed_addr #1 {
start:
  call void @__ferrowarp_panic_bounds_check(i64 %0, i64 %1, ptr %2)
  unreachable
}
define internal void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr noundef nonnull %0, ptr noundef nonnull %1, ptr %2) unnamed_addr alwaysinline noreturn nounwind {
  call void @_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind(ptr %0) #3
  unreachable
}
define internal void @_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind(ptr noalias %info) unnamed_addr alwaysinline noreturn nounwind {
start:
  call void @llvm.trap()
  unreachable
}
define internal void @_RNvNtCsl3zjjZ8wCbR_4core9panicking5panic(ptr noundef %0, i64 noundef %1, ptr %2) unnamed_addr #1 {
  %4 = shl i64 %1, 1
  %5 = or i64 %4, 1
  %6 = inttoptr i64 %5 to ptr
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr %0, ptr %6, ptr %2) noreturn nounwind
  unreachable
}
define internal void @_RNvNtCsl3zjjZ8wCbR_4core6option13expect_failed(ptr %0, i64 noundef %1, ptr %2) unnamed_addr #1 {
start:
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking5panic(ptr %0, i64 %1, ptr %2)
  unreachable
}
define internal void @_RINvNtCsl3zjjZ8wCbR_4core9panicking13assert_failedmmECsaQthrnsOWmt_2fx(i8 noundef range(i8 0, 3) %kind, ptr %0, ptr %1, ptr noundef %args.0, ptr %args.1, ptr %2) unnamed_addr #1 {
start:
  %given = icmp ne ptr %args.0, null
  br i1 %given, label %given_text, label %own_text
given_text:
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr %args.0, ptr %args.1, ptr %2)
  unreachable
own_text:
  %is_equal = icmp eq i8 %kind, 0
  %is_unequal = icmp eq i8 %kind, 1
  %text_not = select i1 %is_unequal, ptr @__ferrowarp_text_1, ptr @__ferrowarp_text_2
  %text = select i1 %is_equal, ptr @__ferrowarp_text_0, ptr %text_not
  %len_not = select i1 %is_unequal, i64 32, i64 37
  %len = select i1 %is_equal, i64 32, i64 %len_not
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking5panic(ptr %text, i64 %len, ptr %2)
  unreachable
}
define internal void @_RNvNtNtCsl3zjjZ8wCbR_4core5slice5index16slice_index_fail(i64 %0, i64 %1, i64 %2, ptr %3) unnamed_addr #1 {
start:
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking5panic(ptr @__ferrowarp_text_3, i64 24, ptr %3)
  unreachable
}
define void @__ferrowarp_panic_bounds_check(i64 %index, i64 %len, ptr %location) unnamed_addr #1 {
start:
  unreachable
}
declare void @llvm.trap() #5
attributes #0 = { nounwind }
attributes #1 = { cold noinline noreturn nounwind }
attributes #2 = { noinline noreturn nounwind }
attributes #3 = { noreturn nounwind }
attributes #4 = { noreturn nounwind }
attributes #5 = { cold noreturn nounwind }
@__ferrowarp_text_0 = private unnamed_addr constant [32 x i8] c"assertion `left == right` failed", align 1
@__ferrowarp_text_1 = private unnamed_addr constant [32 x i8] c"assertion `left != right` failed", align 1
@__ferrowarp_text_2 = private unnamed_addr constant [37 x i8] c"assertion `left matches right` failed", align 1
@__ferrowarp_text_3 = private unnamed_addr constant [24 x i8] c"slice index out of range", align 1
