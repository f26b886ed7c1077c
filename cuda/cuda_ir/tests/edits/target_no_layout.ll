; edit: target
define ptx_kernel void @k() {
start:
  ret void
}

; ---- becomes ----
; error: edit `target` of the LLVM IR failed at `module`: the module has no data layout
