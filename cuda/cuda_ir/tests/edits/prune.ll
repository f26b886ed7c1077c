; edit: prune
@llvm.compiler.used = appending global [2 x ptr] [ptr @kept, ptr @__ferrowarp_panic_slot], section "llvm.metadata"
@kept = global [4 x i8] zeroinitializer, align 4
@__ferrowarp_panic_slot = global [8 x i8] zeroinitializer, align 8
@through = private constant <{ ptr }> <{ ptr @by_address }>, align 8
@dropped = internal global [4 x i8] zeroinitializer, align 4

; some::kernel
define hidden ptx_kernel void @k() unnamed_addr #0 {
start:
  call void @visible()
  %x = load ptr, ptr @through, align 8
  ret void
}

define dso_local void @visible() unnamed_addr #0 {
start:
  ret void
}

define linkonce_odr hidden void @by_address() unnamed_addr #1 {
start:
  ret void
}

define void @memcpy() unnamed_addr #2 {
start:
  call void @declared_for_memcpy()
  ret void
}

declare void @declared_for_memcpy() #3

attributes #0 = { nounwind }
attributes #1 = { noinline nounwind }
attributes #2 = { noredzone }
attributes #3 = { nounwind "for memcpy" }

; ---- becomes ----
@kept = global [4 x i8] zeroinitializer, align 4
@through = private constant <{ ptr }> <{ ptr @by_address }>, align 8
define ptx_kernel void @k() unnamed_addr #0 {
start:
  call void @visible()
  %x = load ptr, ptr @through, align 8
  ret void
}
define internal void @visible() unnamed_addr #0 {
start:
  ret void
}
define internal void @by_address() unnamed_addr #1 {
start:
  ret void
}
attributes #0 = { nounwind }
attributes #1 = { noinline nounwind }
attributes #2 = { noredzone }
attributes #3 = { nounwind "for memcpy" }
