; Writes 25 integers as groups of 7 bits: 25 times a loop that ends by data or by a bounds check. libNVVM 13.5.37 unrolls
; the outer loop at -opt=2 and 3, and does not end: with 16 integers it takes 2 seconds, with each one more twice the time.
target datalayout = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64-a:8:8"
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @chain(ptr %input, ptr %out) {
start:
  %buffer = alloca [300 x i8], align 1
  br label %integer

integer:
  %i = phi i64 [ 0, %start ], [ %i.next, %written ]
  %len.before = phi i64 [ 0, %start ], [ %len.next, %written ]
  %address = getelementptr inbounds i64, ptr %input, i64 %i
  %loaded = load i64, ptr %address, align 8
  br label %group

group:
  %value = phi i64 [ %loaded, %integer ], [ %value.next, %fits ]
  %len = phi i64 [ %len.before, %integer ], [ %len.next, %fits ]
  %is.inside = icmp ult i64 %len, 300
  br i1 %is.inside, label %fits, label %fails

fits:
  %place = getelementptr inbounds i8, ptr %buffer, i64 %len
  %byte = trunc i64 %value to i8
  store i8 %byte, ptr %place, align 1
  %len.next = add nuw nsw i64 %len, 1
  %value.next = lshr i64 %value, 7
  %is.last = icmp eq i64 %value.next, 0
  br i1 %is.last, label %written, label %group

written:
  %i.next = add nuw nsw i64 %i, 1
  %is.end = icmp eq i64 %i.next, 25
  br i1 %is.end, label %end, label %integer

end:
  %half = lshr i64 %len.next, 1
  %middle = getelementptr inbounds i8, ptr %buffer, i64 %half
  %picked = load i8, ptr %middle, align 1
  %wide = zext i8 %picked to i64
  %sum = add nuw nsw i64 %len.next, %wide
  store i64 %sum, ptr %out, align 8
  ret void

fails:
  store i64 %len, ptr %out, align 8
  call void @llvm.trap()
  unreachable
}

declare void @llvm.trap()

!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0}
