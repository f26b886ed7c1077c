; edit: by_value
define ptx_kernel void @one([8 x i64] %0, ptr %out) unnamed_addr #1 {
start:
  %1 = alloca [64 x i8], align 8
  store [8 x i64] %0, ptr %1, align 8
  ret void
}
define ptx_kernel void @of_bytes([3 x i8] %0, [2 x i32] %b) {
start:
  %1 = alloca [3 x i8], align 1
  %2 = alloca [8 x i8], align 4
  store [3 x i8] %0, ptr %1, align 1, !dbg !7
  store [2 x i32] %b, ptr %2, align 4
  ret void
}
define ptx_kernel void @used_otherwise([2 x i64] %0, i64 %1) {
start:
  %2 = extractvalue [2 x i64] %0, 0
  ret void
}
define ptx_kernel void @one_name_begins_with_another([2 x i64] %ab, [2 x i64] %a) {
start:
  %1 = extractvalue [2 x i64] %ab, 0
  %2 = alloca [16 x i8], align 8
  store [2 x i64] %a, ptr %2, align 8
  ret void
}
define void @no_kernel([2 x i64] %0) {
start:
  %1 = alloca [16 x i8], align 8
  store [2 x i64] %0, ptr %1, align 8
  ret void
}

; ---- becomes ----
define ptx_kernel void @one(ptr byval([8 x i64]) align 8 %0, ptr %out) unnamed_addr #1 {
start:
  %1 = alloca [64 x i8], align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %1, ptr align 8 %0, i64 64, i1 false)
  ret void
}
define ptx_kernel void @of_bytes(ptr byval([3 x i8]) align 1 %0, ptr byval([2 x i32]) align 4 %b) {
start:
  %1 = alloca [3 x i8], align 1
  %2 = alloca [8 x i8], align 4
  call void @llvm.memcpy.p0.p0.i64(ptr %1, ptr align 1 %0, i64 3, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %2, ptr align 4 %b, i64 8, i1 false)
  ret void
}
define ptx_kernel void @used_otherwise([2 x i64] %0, i64 %1) {
start:
  %2 = extractvalue [2 x i64] %0, 0
  ret void
}
define ptx_kernel void @one_name_begins_with_another([2 x i64] %ab, ptr byval([2 x i64]) align 8 %a) {
start:
  %1 = extractvalue [2 x i64] %ab, 0
  %2 = alloca [16 x i8], align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %2, ptr align 8 %a, i64 16, i1 false)
  ret void
}
define void @no_kernel([2 x i64] %0) {
start:
  %1 = alloca [16 x i8], align 8
  store [2 x i64] %0, ptr %1, align 8
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
