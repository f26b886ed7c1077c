; edit: target
uselistorder ptr @x, { 1, 0 }

; ---- becomes ----
; error: edit `parse` of the LLVM IR failed at `uselistorder ptr @x, { 1, 0 }`: this kind of line is not known
