; edit: by_value
@__ferrowarp_layout_0_of_one = constant <{ [23 x i8] }> <{ [23 x i8] c"0000012800000064a_first" }>, align 1
define ptx_kernel void @one(i64 %a_first) {
start:
  ret void
}

; ---- becomes ----
; error: edit `by_value` of the LLVM IR failed at `@one`: its parameter %a_first, which is passed by value, is no pointer
