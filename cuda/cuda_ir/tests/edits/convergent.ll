; edit: convergent
define ptx_kernel void @k(ptr noundef %f, ptr %x) unnamed_addr #0 {
start:
  call void @helper(ptr %x) #1
  call void %f(ptr %x) #1, !dbg !0
  %r = tail call { i32, i32 } asm sideeffect "shfl.sync.bfly.b32 $0, $1;", "=r,r,~{memory}"(i32 3) #2, !srcloc !0
  %v = call i32 asm "ld.global.nc.u32 $0, [$1];", "=r,l"(ptr %x) #4, !srcloc !0
  %w = tail call i32 asm alignstack inteldialect "mov.u32 $0, %laneid;", "=r"() #5
  call void asm sideeffect alignstack "bar.sync 0;", "~{memory}"() #2
  ret void
}

define internal void @helper(ptr range(i64 0, 3) %x) #0 {
start:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ret void
}

declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) #3

attributes #0 = { nounwind }
attributes #1 = { nounwind }
attributes #2 = { nounwind }
attributes #3 = { convergent nocallback nounwind }
attributes #4 = { nounwind willreturn memory(read) }
attributes #5 = { nounwind willreturn memory(none) }

!0 = !{}

; ---- becomes ----
define ptx_kernel void @k(ptr noundef %f, ptr %x) unnamed_addr convergent #0 {
start:
  call void @helper(ptr %x) #1
  call void %f(ptr %x) convergent #1, !dbg !0
  %r = tail call { i32, i32 } asm sideeffect "shfl.sync.bfly.b32 $0, $1;", "=r,r,~{memory}"(i32 3) convergent #2, !srcloc !0
  %v = call i32 asm "ld.global.nc.u32 $0, [$1];", "=r,l"(ptr %x) #4, !srcloc !0
  %w = tail call i32 asm alignstack inteldialect "mov.u32 $0, %laneid;", "=r"() #5
  call void asm sideeffect alignstack "bar.sync 0;", "~{memory}"() convergent #2
  ret void
}
define internal void @helper(ptr range(i64 0, 3) %x) convergent #0 {
start:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ret void
}
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) #3
attributes #0 = { nounwind }
attributes #1 = { nounwind }
attributes #2 = { nounwind }
attributes #3 = { convergent nocallback nounwind }
attributes #4 = { nounwind willreturn memory(read) }
attributes #5 = { nounwind willreturn memory(none) }
!0 = !{}
