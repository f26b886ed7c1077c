; edit: target
source_filename = "k.1234-cgu.0"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @k() unnamed_addr #0 {
start:
  ret void
}

attributes #0 = { nounwind "target-cpu"="sm_90" }
attributes #1 = { "target-cpu"="sm_90" "target-features"="+ptx86" noinline }

!llvm.ident = !{!0}
!0 = !{!"rustc version 1.95.0"}

; ---- becomes ----
source_filename = "k.1234-cgu.0"
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k() unnamed_addr #0 {
start:
  ret void
}
attributes #0 = { nounwind }
attributes #1 = { noinline }
!llvm.ident = !{!0}
!0 = !{!"rustc version 1.95.0"}
!nvvmir.version = !{!1}
!1 = !{i32 2, i32 0, i32 3, i32 2}
