; edit: bounds
define ptx_kernel void @both(ptr %a) unnamed_addr #0 section ".ferrowarp.bounds.256.4" {
start:
  ret void
}
define ptx_kernel void @threads_only(ptr %a) section ".ferrowarp.bounds.1024.0" #0 {
start:
  ret void
}
define ptx_kernel void @none(ptr %a) unnamed_addr #0 {
start:
  ret void
}

; ---- becomes ----
define ptx_kernel void @both(ptr %a) unnamed_addr "nvvm.maxntid"="256" "nvvm.minctasm"="4" #0 {
start:
  ret void
}
define ptx_kernel void @threads_only(ptr %a) "nvvm.maxntid"="1024" #0 {
start:
  ret void
}
define ptx_kernel void @none(ptr %a) unnamed_addr #0 {
start:
  ret void
}
