; edit: prune
; Nothing writes, so the formatting function can never be called.
@vtable = private constant <{ [8 x i8], ptr }> <{ [8 x i8] zeroinitializer, ptr @_RNvXsi_NtNtNtCsl3zjjZ8wCbR_4core3fmt3num3impjNtB9_7Display3fmt }>, align 8

define ptx_kernel void @k() unnamed_addr {
start:
  %argument = alloca [16 x i8], align 8
  store ptr @_RNvXsi_NtNtNtCsl3zjjZ8wCbR_4core3fmt3num3impjNtB9_7Display3fmt, ptr %argument, align 8
  %v = load ptr, ptr @vtable, align 8
  ret void
}

define internal i1 @_RNvXsi_NtNtNtCsl3zjjZ8wCbR_4core3fmt3num3impjNtB9_7Display3fmt(ptr %0, ptr %1) unnamed_addr {
start:
  %2 = call i1 @_RNvNtCsl3zjjZ8wCbR_4core3fmt5write(ptr %0)
  ret i1 %2
}

define internal i1 @_RNvNtCsl3zjjZ8wCbR_4core3fmt5write(ptr %0) unnamed_addr {
start:
  ret i1 false
}

; ---- becomes ----
@vtable = private constant <{ [8 x i8], ptr }> <{ [8 x i8] zeroinitializer, ptr null }>, align 8
define ptx_kernel void @k() unnamed_addr {
start:
  %argument = alloca [16 x i8], align 8
  store ptr null, ptr %argument, align 8
  %v = load ptr, ptr @vtable, align 8
  ret void
}
