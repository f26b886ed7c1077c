; edit: bounds
define ptx_kernel void @f() unnamed_addr section ".ferrowarp.bounds.many" {
start:
  ret void
}

; ---- becomes ----
; error: edit `bounds` of the LLVM IR failed at `@f`: its section does not name two numbers
