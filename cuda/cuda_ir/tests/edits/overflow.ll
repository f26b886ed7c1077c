; edit: overflow
target triple = "nvptx64-nvidia-cuda"

; Those of up to 32 bits are widened; the others libNVVM takes.
define internal i32 @f(i32 %a, i16 %b, i64 %c) {
  %1 = call { i32, i1 } @llvm.umul.with.overflow.i32(i32 %a, i32 3)
  %2 = call { i16, i1 } @llvm.smul.with.overflow.i16(i16 %b, i16 3)
  %3 = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %c, i64 3)
  ret i32 0
}

declare { i32, i1 } @llvm.umul.with.overflow.i32(i32, i32) #1
declare { i16, i1 } @llvm.smul.with.overflow.i16(i16, i16) #1
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64) #1

attributes #1 = { nounwind }

; ---- becomes ----
target triple = "nvptx64-nvidia-cuda"
define internal i32 @f(i32 %a, i16 %b, i64 %c) {
  %1 = call { i32, i1 } @__ferrowarp_umul_overflow_i32(i32 %a, i32 3)
  %2 = call { i16, i1 } @__ferrowarp_smul_overflow_i16(i16 %b, i16 3)
  %3 = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %c, i64 3)
  ret i32 0
}
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64) #1
attributes #1 = { nounwind }
define internal { i32, i1 } @__ferrowarp_umul_overflow_i32(i32 %a, i32 %b) {
  %wide_a = zext i32 %a to i64
  %wide_b = zext i32 %b to i64
  %wide = mul i64 %wide_a, %wide_b
  %low = trunc i64 %wide to i32
  %again = zext i32 %low to i64
  %overflows = icmp ne i64 %again, %wide
  %one = insertvalue { i32, i1 } poison, i32 %low, 0
  %both = insertvalue { i32, i1 } %one, i1 %overflows, 1
  ret { i32, i1 } %both
}
define internal { i16, i1 } @__ferrowarp_smul_overflow_i16(i16 %a, i16 %b) {
  %wide_a = sext i16 %a to i32
  %wide_b = sext i16 %b to i32
  %wide = mul i32 %wide_a, %wide_b
  %low = trunc i32 %wide to i16
  %again = sext i16 %low to i32
  %overflows = icmp ne i32 %again, %wide
  %one = insertvalue { i16, i1 } poison, i16 %low, 0
  %both = insertvalue { i16, i1 } %one, i1 %overflows, 1
  ret { i16, i1 } %both
}
