; edit: place
@TILE = internal unnamed_addr global [1024 x i8] undef, section ".ferrowarp.texture", align 4

; ---- becomes ----
; error: edit `place` of the LLVM IR failed at `@TILE`: its section names no memory that statics can be placed in
