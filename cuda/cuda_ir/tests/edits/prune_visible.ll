; edit: prune
define ptx_kernel void @k() unnamed_addr #0 {
start:
  ret void
}
define float @for_others(float %x) unnamed_addr #0 section ".ferrowarp.visible" {
start:
  %0 = call float @helper(float %x)
  ret float %0
}
define float @helper(float %x) unnamed_addr #0 {
start:
  ret float %x
}
define float @for_nobody(float %x) unnamed_addr #0 {
start:
  ret float %x
}
attributes #0 = { nounwind }

; ---- becomes ----
define ptx_kernel void @k() unnamed_addr #0 {
start:
  ret void
}
define float @for_others(float %x) unnamed_addr #0 {
start:
  %0 = call float @helper(float %x)
  ret float %0
}
define internal float @helper(float %x) unnamed_addr #0 {
start:
  ret float %x
}
attributes #0 = { nounwind }
