; edit: place
%Dynamic = type {}

@__ferrowarp_dynamic_shared = external local_unnamed_addr global %Dynamic

define internal ptr @base() unnamed_addr #0 {
start:
  ret ptr @__ferrowarp_dynamic_shared
}

attributes #0 = { nounwind }

; ---- becomes ----
%Dynamic = type {}
@__ferrowarp_dynamic_shared = external addrspace(3) global [0 x i8], align 16
define internal ptr @base() unnamed_addr #0 {
start:
  ret ptr addrspacecast (ptr addrspace(3) @__ferrowarp_dynamic_shared to ptr)
}
attributes #0 = { nounwind }
