; edit: place
@TILE = internal unnamed_addr global [1024 x i8] zeroinitializer, section ".ferrowarp.shared", align 4

; ---- becomes ----
; error: edit `place` of the LLVM IR failed at `@TILE`: shared memory cannot have an initial value: make the static an array of MaybeUninit, uninit() each
