; edit: place
@PAIR = internal global <{ [4 x i8], [4 x i8] }> <{ [4 x i8] undef, [4 x i8] c"\01\00\00\00" }>, section ".ferrowarp.shared", align 4

; ---- becomes ----
; error: edit `place` of the LLVM IR failed at `@PAIR`: shared memory cannot have an initial value: make the static an array of MaybeUninit, uninit() each
