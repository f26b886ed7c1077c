; edit: place
define internal void @f() unnamed_addr section ".ferrowarp.shared" {
start:
  ret void
}

; ---- becomes ----
; error: edit `place` of the LLVM IR failed at `@f`: a marker section is left where no static can be placed
