; edit: panics
define internal void @_RNvNtCsl3zjjZ8wCbR_4core9panicking18panic_bounds_check(i64 %0, ptr %1) unnamed_addr {
start:
  unreachable
}

define void @__ferrowarp_panic_bounds_check(i64 %index, i64 %len, ptr %location) unnamed_addr {
start:
  unreachable
}

; ---- becomes ----
; error: edit `panics` of the LLVM IR failed at `core::panicking::panic_bounds_check`: its parameters are not as expected: ["%0", "%1"]
