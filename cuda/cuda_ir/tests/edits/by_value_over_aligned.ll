; edit: by_value
@__ferrowarp_layout_0_of_two = constant <{ [23 x i8] }> <{ [23 x i8] c"0000012800000064a_first" }>, align 1
@__ferrowarp_layout_1_of_two = constant <{ [23 x i8] }> <{ [23 x i8] c"0000000000000000b_first" }>, align 1
@__ferrowarp_layout_2_of_two = constant <{ [23 x i8] }> <{ [23 x i8] c"0000044800000128c_first" }>, align 1
@__ferrowarp_layout_0_of_gone = constant <{ [23 x i8] }> <{ [23 x i8] c"0000012800000064a_first" }>, align 1
define ptx_kernel void @two(ptr noundef %a_first, [2 x i64] %b_first, ptr noundef %c_first, ptr noundef %out_first) unnamed_addr #1 {
start:
  %1 = alloca [16 x i8], align 8
  %2 = alloca [128 x i8], align 64
  store [2 x i64] %b_first, ptr %1, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %2, ptr align 64 %a_first, i64 128, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; ---- becomes ----
define ptx_kernel void @two(ptr noalias readonly byval([128 x i8]) align 64 "nvvm.grid_constant" %a_first, ptr byval([2 x i64]) align 8 %b_first, ptr noalias readonly byval([448 x i8]) align 128 "nvvm.grid_constant" %c_first, ptr noundef %out_first) unnamed_addr #1 {
start:
  %1 = alloca [16 x i8], align 8
  %2 = alloca [128 x i8], align 64
  call void @llvm.memcpy.p0.p0.i64(ptr %1, ptr align 8 %b_first, i64 16, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %2, ptr align 64 %a_first, i64 128, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
