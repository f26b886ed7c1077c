; edit: target
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; A group that holds the processor alone is empty without it, and libNVVM refuses an empty one.
define internal void @f() unnamed_addr #0 {
  call void @g() #1
  call void @g() #0, !dbg !0
  ret void
}

declare void @g() #0

attributes #0 = { "target-cpu"="sm_90" }
attributes #1 = { nounwind "target-cpu"="sm_90" }
!0 = !{}

; ---- becomes ----
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"
define internal void @f() unnamed_addr {
  call void @g() #1
  call void @g(), !dbg !0
  ret void
}
declare void @g()
attributes #1 = { nounwind }
!0 = !{}
!nvvmir.version = !{!1}
!1 = !{i32 2, i32 0, i32 3, i32 2}
