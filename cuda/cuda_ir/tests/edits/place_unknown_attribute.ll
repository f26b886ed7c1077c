; edit: place
@TILE = internal unnamed_addr global [1024 x i8] undef, something 7, section ".ferrowarp.shared", align 4

; ---- becomes ----
; error: edit `place` of the LLVM IR failed at `@TILE`: the attribute `something` is not known
