; edit: place
; rustc 1.99 writes more behind the alignment.
@TILE = internal unnamed_addr global [16 x i8] undef, section ".ferrowarp.shared", align 4, !guid !0
@PAIR = internal global <{ [4 x i8], { i32, [2 x ptr] } }> <{ [4 x i8] undef, { i32, [2 x ptr] } { i32 poison, [2 x ptr] undef } }>, align 8, section ".ferrowarp.shared", !dbg !1, !guid !0

!0 = !{i64 12}
!1 = !{}

; ---- becomes ----
@TILE = internal unnamed_addr addrspace(3) global [16 x i8] undef, align 4, !guid !0
@PAIR = internal addrspace(3) global <{ [4 x i8], { i32, [2 x ptr] } }> <{ [4 x i8] undef, { i32, [2 x ptr] } { i32 poison, [2 x ptr] undef } }>, align 8, !dbg !1, !guid !0
!0 = !{i64 12}
!1 = !{}
