; edit: place
; Only whole names are the static's: not the beginning of a longer one, not a text, not a comment.
@S = internal global [4 x i8] undef, section ".ferrowarp.shared", align 4
@S.1 = internal global ptr @S, align 8
@"S x" = internal global [8 x i8] c"ptr @S \22", align 1

define internal void @f() unnamed_addr #0 {
start:
; @S in a comment
  store ptr @S.1, ptr @"S x", align 8
  store ptr @S, ptr @S.1, align 8
  ret void
}

attributes #0 = { nounwind }

; ---- becomes ----
@S = internal addrspace(3) global [4 x i8] undef, align 4
@S.1 = internal global ptr addrspacecast (ptr addrspace(3) @S to ptr), align 8
@"S x" = internal global [8 x i8] c"ptr @S \22", align 1
define internal void @f() unnamed_addr #0 {
start:
; @S in a comment
  store ptr @S.1, ptr @"S x", align 8
  store ptr addrspacecast (ptr addrspace(3) @S to ptr), ptr @S.1, align 8
  ret void
}
attributes #0 = { nounwind }
