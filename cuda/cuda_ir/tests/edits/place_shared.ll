; edit: place
@TILE = internal unnamed_addr global [1024 x i8] undef, section ".ferrowarp.shared", align 4
@TABLE = internal unnamed_addr constant [4 x i8] c"\00@\22;", section ".ferrowarp.constant", align 4
@OTHER = internal global [4 x i8] zeroinitializer, align 4

define ptx_kernel void @k(ptr %out) unnamed_addr #0 {
start:
  store float 1.000000e+00, ptr @TILE, align 4
  store float 2.000000e+00, ptr getelementptr inbounds nuw (float, ptr @TILE, i64 1), align 4
  %a = load float, ptr @TABLE, align 4
  %b = getelementptr inbounds float, ptr @TILE, i64 7
  call void @f(ptr noundef nonnull align 4 @TILE, ptr @OTHER)
  %c = icmp eq ptr %b, @TILE
  ret void
}

attributes #0 = { nounwind }

; ---- becomes ----
@TILE = internal unnamed_addr addrspace(3) global [1024 x i8] undef, align 4
@TABLE = internal unnamed_addr addrspace(4) constant [4 x i8] c"\00@\22;", align 4
@OTHER = internal global [4 x i8] zeroinitializer, align 4
define ptx_kernel void @k(ptr %out) unnamed_addr #0 {
start:
  store float 1.000000e+00, ptr addrspacecast (ptr addrspace(3) @TILE to ptr), align 4
  store float 2.000000e+00, ptr getelementptr inbounds nuw (float, ptr addrspacecast (ptr addrspace(3) @TILE to ptr), i64 1), align 4
  %a = load float, ptr addrspacecast (ptr addrspace(4) @TABLE to ptr), align 4
  %b = getelementptr inbounds float, ptr addrspacecast (ptr addrspace(3) @TILE to ptr), i64 7
  call void @f(ptr noundef nonnull align 4 addrspacecast (ptr addrspace(3) @TILE to ptr), ptr @OTHER)
  %c = icmp eq ptr %b, addrspacecast (ptr addrspace(3) @TILE to ptr)
  ret void
}
attributes #0 = { nounwind }
