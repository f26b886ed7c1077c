; edit: target
target datalayout = "e"
attributes #0 = { nounwind "target-cpu"="target-cpu"="sm_75" noinline }

; ---- becomes ----
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
attributes #0 = { nounwind="sm_75" noinline }
!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0, i32 3, i32 2}
