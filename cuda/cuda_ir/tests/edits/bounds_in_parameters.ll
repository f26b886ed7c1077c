; edit: bounds
define ptx_kernel void @f(ptr section ".ferrowarp.bounds.256.4" %a) unnamed_addr {
start:
  ret void
}

; ---- becomes ----
; error: edit `bounds` of the LLVM IR failed at `@f`: the mark is no section
