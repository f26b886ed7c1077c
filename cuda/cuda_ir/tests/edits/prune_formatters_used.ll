; edit: prune
; The kernel writes, so what it formats with stays.
define ptx_kernel void @k() unnamed_addr {
start:
  %argument = alloca [16 x i8], align 8
  store ptr @_RNvXsi_NtNtNtCsl3zjjZ8wCbR_4core3fmt3num3impjNtB9_7Display3fmt, ptr %argument, align 8
  %0 = call i1 @_RNvNtCsl3zjjZ8wCbR_4core3fmt5write(ptr %argument)
  ret void
}

define internal i1 @_RNvXsi_NtNtNtCsl3zjjZ8wCbR_4core3fmt3num3impjNtB9_7Display3fmt(ptr %0, ptr %1) unnamed_addr {
start:
  ret i1 false
}

define internal i1 @_RNvNtCsl3zjjZ8wCbR_4core3fmt5write(ptr %0) unnamed_addr {
start:
  ret i1 false
}

; ---- becomes ----
define ptx_kernel void @k() unnamed_addr {
start:
  %argument = alloca [16 x i8], align 8
  store ptr @_RNvXsi_NtNtNtCsl3zjjZ8wCbR_4core3fmt3num3impjNtB9_7Display3fmt, ptr %argument, align 8
  %0 = call i1 @_RNvNtCsl3zjjZ8wCbR_4core3fmt5write(ptr %argument)
  ret void
}
define internal i1 @_RNvXsi_NtNtNtCsl3zjjZ8wCbR_4core3fmt3num3impjNtB9_7Display3fmt(ptr %0, ptr %1) unnamed_addr {
start:
  ret i1 false
}
define internal i1 @_RNvNtCsl3zjjZ8wCbR_4core3fmt5write(ptr %0) unnamed_addr {
start:
  ret i1 false
}
