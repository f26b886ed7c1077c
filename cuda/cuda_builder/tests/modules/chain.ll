; ModuleID = 'v.ll'
source_filename = "/tmp/dump.ll"
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

@__constant_0 = private unnamed_addr constant <{ [8 x i8], [8 x i8] }> <{ [8 x i8] zeroinitializer, [8 x i8] undef }>, align 8
@__constant_1 = private unnamed_addr constant [24 x i8] c"a message with arguments", align 1
@__ferrowarp_panic_slot = internal global [8 x i8] zeroinitializer, align 8
@__constant_2 = private unnamed_addr constant [28 x i8] c"attempt to add with overflow", align 1
@__constant_19 = private unnamed_addr constant [19 x i8] c"index out of bounds", align 1
@__constant_58 = private unnamed_addr constant <{ ptr, [16 x i8] }> <{ ptr @__constant_59, [16 x i8] c"\0D\00\00\00\00\00\00\00\15\00\00\00,\00\00\00" }>, align 8
@__constant_59 = private unnamed_addr constant [14 x i8] c"src/varint.rs\00", align 1
@__constant_60 = private unnamed_addr constant <{ ptr, [16 x i8] }> <{ ptr @__constant_59, [16 x i8] c"\0D\00\00\00\00\00\00\00\15\00\00\00\15\00\00\00" }>, align 8
@__constant_61 = private unnamed_addr constant <{ ptr, [16 x i8] }> <{ ptr @__constant_59, [16 x i8] c"\0D\00\00\00\00\00\00\00\0D\00\00\00\0D\00\00\00" }>, align 8
@__constant_62 = private unnamed_addr constant <{ ptr, [16 x i8] }> <{ ptr @__constant_59, [16 x i8] c"\0D\00\00\00\00\00\00\00\0F\00\00\00\0D\00\00\00" }>, align 8

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(inaccessiblemem: write)
declare void @llvm.assume(i1 noundef) #0

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: readwrite)
declare void @llvm.lifetime.start.p0(ptr captures(none)) #1

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: readwrite)
declare void @llvm.lifetime.end.p0(ptr captures(none)) #1

; Function Attrs: nocallback nofree nounwind willreturn memory(argmem: readwrite)
declare void @llvm.memcpy.p0.p0.i64(ptr noalias writeonly captures(none), ptr noalias readonly captures(none), i64, i1 immarg) #2

; Function Attrs: cold noreturn nounwind memory(inaccessiblemem: write)
declare void @llvm.trap() #3

; Function Attrs: nocallback nofree nounwind willreturn memory(argmem: write)
declare void @llvm.memset.p0.i64(ptr writeonly captures(none), i8, i64, i1 immarg) #4

; Function Attrs: cold convergent noinline noreturn nounwind
define internal void @core__panicking__panic_const__panic_const_add_overflow(ptr noalias noundef readonly align 8 captures(address, read_provenance) dereferenceable(24) %0) unnamed_addr #5 {
  call void @fixture_kernels__record(ptr noalias noundef nonnull readonly align 1 captures(address, read_provenance) @__constant_2, i64 noundef 28, ptr noundef nonnull readonly align 8 dereferenceable(24) %0, i64 noundef 0) #10, !noalias !3
  unreachable
}

; Function Attrs: cold convergent noinline noreturn nounwind
define internal void @fixture_kernels__record(ptr noalias noundef nonnull readonly align 1 captures(address, read_provenance) %text.0, i64 noundef %text.1, ptr noundef %location, i64 noundef %index) unnamed_addr #5 {
start:
  %0 = load volatile ptr, ptr @__ferrowarp_panic_slot, align 8
  %1 = icmp eq ptr %0, null
  br i1 %1, label %bb3, label %bb2

bb2:                                              ; preds = %start
  store ptr %text.0, ptr %0, align 8
  %_7.sroa.4.0.slot.sroa_idx = getelementptr inbounds nuw i8, ptr %0, i64 8
  store i64 %text.1, ptr %_7.sroa.4.0.slot.sroa_idx, align 8
  %_7.sroa.5.0.slot.sroa_idx = getelementptr inbounds nuw i8, ptr %0, i64 16
  store ptr %location, ptr %_7.sroa.5.0.slot.sroa_idx, align 8
  %_7.sroa.6.0.slot.sroa_idx = getelementptr inbounds nuw i8, ptr %0, i64 24
  store i64 %index, ptr %_7.sroa.6.0.slot.sroa_idx, align 8
  br label %bb3

bb3:                                              ; preds = %start, %bb2
  call void @llvm.trap()
  unreachable

}

; Function Attrs: cold convergent minsize noinline noreturn nounwind optsize
define internal void @core__panicking__panic_bounds_check(i64 noundef %0, i64 noundef %1, ptr noalias noundef readonly align 8 captures(address, read_provenance) dereferenceable(24) %2) unnamed_addr #6 {
start:
  call void @__ferrowarp_panic_bounds_check(i64 %0, i64 %1, ptr nonnull %2)
  unreachable
}

; Function Attrs: convergent noreturn nounwind
define internal void @__ferrowarp_panic_bounds_check(i64 noundef %index, i64 noundef %len, ptr noundef %location) unnamed_addr #7 {
start:
  %_5 = xor i64 %len, %index
  call void @fixture_kernels__record(ptr noalias noundef nonnull readonly align 1 captures(address, read_provenance) @__constant_19, i64 noundef 19, ptr noundef %location, i64 noundef %_5) #10
  unreachable
}

; Function Attrs: convergent nounwind
define ptx_kernel void @varint(ptr noalias noundef readonly align 8 captures(address, read_provenance) dereferenceable(200) %input, ptr noundef %out) unnamed_addr #8 {
start:
  %buffer = alloca [300 x i8], align 1
  call void @llvm.lifetime.start.p0(ptr nonnull %buffer)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 1 dereferenceable(300) %buffer, i8 0, i64 300, i1 false)
  br label %bb3

bb1.loopexit:                                     ; preds = %bb6
  %_33.not = icmp eq i64 %iter.sroa.0.0.add12, 200
  %spec.select6.idx = select i1 %_33.not, i64 0, i64 8
  %iter.sroa.0.0.add = add nuw nsw i64 %spec.select6.idx, %iter.sroa.0.0.add12
  br i1 %_33.not, label %bb11, label %bb3

bb3:                                              ; preds = %start, %bb1.loopexit
  %iter.sroa.0.0.add12 = phi i64 [ 8, %start ], [ %iter.sroa.0.0.add, %bb1.loopexit ]
  %len.sroa.0.011 = phi i64 [ 0, %start ], [ %_12.0, %bb1.loopexit ]
  %iter.sroa.0.0.idx10 = phi i64 [ 0, %start ], [ %iter.sroa.0.0.add12, %bb1.loopexit ]
  %iter.sroa.0.0.ptr = getelementptr inbounds nuw i8, ptr %input, i64 %iter.sroa.0.0.idx10
  %0 = load i64, ptr %iter.sroa.0.0.ptr, align 8, !noundef !6
  br label %bb5

bb11:                                             ; preds = %bb1.loopexit
  %_187 = lshr i64 %_12.0, 1
  %1 = getelementptr inbounds nuw i8, ptr %buffer, i64 %_187
  %_17 = load i8, ptr %1, align 1, !noundef !6
  %_16 = zext i8 %_17 to i64
  %_20.0 = add nuw nsw i64 %_12.0, %_16
  store i64 %_20.0, ptr %out, align 8
  call void @llvm.lifetime.end.p0(ptr nonnull %buffer)
  ret void

bb5:                                              ; preds = %bb6, %bb3
  %value.sroa.0.0 = phi i64 [ %0, %bb3 ], [ %4, %bb6 ]
  %len.sroa.0.1 = phi i64 [ %len.sroa.0.011, %bb3 ], [ %_12.0, %bb6 ]
  %_11 = icmp ult i64 %len.sroa.0.1, 300
  br i1 %_11, label %bb6, label %panic2

bb6:                                              ; preds = %bb5
  %2 = getelementptr inbounds nuw i8, ptr %buffer, i64 %len.sroa.0.1
  %3 = trunc i64 %value.sroa.0.0 to i8
  store i8 %3, ptr %2, align 1
  %_12.0 = add nuw nsw i64 %len.sroa.0.1, 1
  %4 = lshr i64 %value.sroa.0.0, 7
  %5 = icmp eq i64 %4, 0
  br i1 %5, label %bb1.loopexit, label %bb5

panic2:                                           ; preds = %bb5
  call void @core__panicking__panic_bounds_check(i64 noundef %len.sroa.0.1, i64 noundef 300, ptr noalias noundef readonly align 8 captures(address, read_provenance) dereferenceable(24) @__constant_61) #10
  unreachable

}

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(inaccessiblemem: readwrite)
declare void @llvm.experimental.noalias.scope.decl(metadata) #9

uselistorder ptr @fixture_kernels__record, { 1, 0 }

attributes #0 = { nocallback nofree nosync nounwind willreturn memory(inaccessiblemem: write) }
attributes #1 = { nocallback nofree nosync nounwind willreturn memory(argmem: readwrite) }
attributes #2 = { nocallback nofree nounwind willreturn memory(argmem: readwrite) }
attributes #3 = { cold noreturn nounwind memory(inaccessiblemem: write) }
attributes #4 = { nocallback nofree nounwind willreturn memory(argmem: write) }
attributes #5 = { cold convergent noinline noreturn nounwind }
attributes #6 = { cold convergent minsize noinline noreturn nounwind optsize }
attributes #7 = { convergent noreturn nounwind }
attributes #8 = { convergent nounwind }
attributes #9 = { nocallback nofree nosync nounwind willreturn memory(inaccessiblemem: readwrite) }
attributes #10 = { noinline noreturn nounwind }

!llvm.module.flags = !{!0}
!llvm.ident = !{!1}
!nvvmir.version = !{!2}

!0 = !{i32 8, !"PIC Level", i32 2}
!1 = !{!"rustc version 1.95.0 (59807616e 2026-04-14)"}
!2 = !{i32 2, i32 0, i32 3, i32 2}
!3 = !{!4}
!4 = distinct !{!4, !5, !"__rustc__rust_begin_unwind: %info"}
!5 = distinct !{!5, !"__rustc__rust_begin_unwind"}
!6 = !{}
