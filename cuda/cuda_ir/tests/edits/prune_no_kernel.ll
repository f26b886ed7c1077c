; edit: prune
define void @no_kernel() {
start:
  ret void
}

; ---- becomes ----
; error: edit `prune` of the LLVM IR failed at `module`: there is no kernel in the crate: mark a function with #[kernel]
