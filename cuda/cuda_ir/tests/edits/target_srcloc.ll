; edit: target
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"

; Where assembly stands in the source is of no use to what follows, and changes with every edit before it.
define internal void @f() {
  call void asm sideeffect "bar.sync 0;", ""() #1, !srcloc !2
  call void asm sideeffect "ret; // , !srcloc !2", ""(), !srcloc !2, !dbg !3
  ret void
}

attributes #1 = { nounwind }
!2 = !{i64 1682746712128035}
!3 = !{}

; ---- becomes ----
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
define internal void @f() {
  call void asm sideeffect "bar.sync 0;", ""() #1
  call void asm sideeffect "ret; // , !srcloc !2", ""(), !dbg !3
  ret void
}
attributes #1 = { nounwind }
!2 = !{i64 1682746712128035}
!3 = !{}
!nvvmir.version = !{!4}
!4 = !{i32 2, i32 0, i32 3, i32 2}
