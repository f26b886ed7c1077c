; edit: panics
; A template with arguments becomes a text; one that is not a constant, and one that cannot be read, stay.
@template = private unnamed_addr constant [15 x i8] c"\04sum \C0\01 \C1\00\00\00\00\01!\00", align 1
@unreadable = private unnamed_addr constant [2 x i8] c"\90\00", align 1
@variable = internal global [2 x i8] c"\C0\00", align 1

define ptx_kernel void @k(ptr %unknown, ptr %args) unnamed_addr #0 {
start:
  %space = alloca [16 x i8], align 8
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr noundef nonnull @template, ptr noundef nonnull %space, ptr noalias captures(address, read_provenance) dereferenceable(24) @location) #1
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr @template, ptr inttoptr (i64 29 to ptr), ptr @location) #1
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr %unknown, ptr %args, ptr @location) #1
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr @unreadable, ptr %args, ptr @location) #1
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr @variable, ptr %args, ptr @location) #1
  call void @_RINvNtCsl3zjjZ8wCbR_4core9panicking13assert_failedmmECsaQthrnsOWmt_2fx(i8 0, ptr %args, ptr %args, ptr @template, ptr %space, ptr @location) #1
  call void @_RINvNtCsl3zjjZ8wCbR_4core9panicking13assert_failedmmECsaQthrnsOWmt_2fx(i8 0, ptr %args, ptr %args, ptr null, ptr %space, ptr @location) #1
  unreachable
}

define internal void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr noundef nonnull %0, ptr noundef nonnull %1, ptr %2) unnamed_addr #2 {
  unreachable
}

define internal void @_RINvNtCsl3zjjZ8wCbR_4core9panicking13assert_failedmmECsaQthrnsOWmt_2fx(i8 %kind, ptr %0, ptr %1, ptr %args.0, ptr %args.1, ptr %2) unnamed_addr #2 {
start:
  unreachable
}

attributes #0 = { nounwind }
attributes #1 = { noinline noreturn nounwind }
attributes #2 = { cold noinline noreturn nounwind }

; ---- becomes ----
@template = private unnamed_addr constant [15 x i8] c"\04sum \C0\01 \C1\00\00\00\00\01!\00", align 1
@unreadable = private unnamed_addr constant [2 x i8] c"\90\00", align 1
@variable = internal global [2 x i8] c"\C0\00", align 1
define ptx_kernel void @k(ptr %unknown, ptr %args) unnamed_addr #0 {
start:
  %space = alloca [16 x i8], align 8
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr @__ferrowarp_message_0, ptr inttoptr (i64 21 to ptr), ptr noalias captures(address, read_provenance) dereferenceable(24) @location) noreturn nounwind
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr @template, ptr inttoptr (i64 29 to ptr), ptr @location) noreturn nounwind
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr %unknown, ptr %args, ptr @location) noreturn nounwind
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr @unreadable, ptr %args, ptr @location) noreturn nounwind
  call void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr @variable, ptr %args, ptr @location) noreturn nounwind
  call void @_RINvNtCsl3zjjZ8wCbR_4core9panicking13assert_failedmmECsaQthrnsOWmt_2fx(i8 0, ptr %args, ptr %args, ptr @__ferrowarp_message_0, ptr inttoptr (i64 21 to ptr), ptr @location) #1
  call void @_RINvNtCsl3zjjZ8wCbR_4core9panicking13assert_failedmmECsaQthrnsOWmt_2fx(i8 0, ptr %args, ptr %args, ptr null, ptr %space, ptr @location) #1
  unreachable
}
define internal void @_RNvNtCsl3zjjZ8wCbR_4core9panicking9panic_fmt(ptr noundef nonnull %0, ptr noundef nonnull %1, ptr %2) unnamed_addr alwaysinline noreturn nounwind {
  unreachable
}
define internal void @_RINvNtCsl3zjjZ8wCbR_4core9panicking13assert_failedmmECsaQthrnsOWmt_2fx(i8 %kind, ptr %0, ptr %1, ptr %args.0, ptr %args.1, ptr %2) unnamed_addr #2 {
start:
  unreachable
}
attributes #0 = { nounwind }
attributes #1 = { noinline noreturn nounwind }
attributes #2 = { cold noinline noreturn nounwind }
@__ferrowarp_message_0 = private unnamed_addr constant [10 x i8] c"sum {} {}!", align 1
