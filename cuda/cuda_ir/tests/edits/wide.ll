; edit: wide
define void @k(i128 %a, double %x, ptr %out) {
start:
  %0 = uitofp nneg i128 %a to float, !dbg !3
  %1 = sitofp i128 %a to double
  %2 = call noundef i128 @llvm.fptosi.sat.i128.f64(double %x) #1
  %3 = fptoui float %0 to i128
  %4 = uitofp i64 7 to float
  %5 = call i128 @llvm.fptoui.sat.i128.f16(half 0xH3C00)
  ret void
}
declare i128 @llvm.fptosi.sat.i128.f64(double) #1
declare i128 @llvm.fptoui.sat.i128.f16(half) #1

; ---- becomes ----
define void @k(i128 %a, double %x, ptr %out) {
start:
  %0 = call float @__ferrowarp_uitofp_i128_f32(i128 %a), !dbg !3
  %1 = call double @__ferrowarp_sitofp_i128_f64(i128 %a)
  %2 = call noundef i128 @__ferrowarp_fptosi_i128_f64(double %x) #1
  %3 = call i128 @__ferrowarp_fptoui_i128_f32(float %0)
  %4 = uitofp i64 7 to float
  %5 = call i128 @__ferrowarp_fptoui_i128_f16(half 0xH3C00)
  ret void
}
define internal i128 @__ferrowarp_fptoui_i128_f16(half %x) {
  %wide = fpext half %x to float
  %result = call i128 @__ferrowarp_fptoui_i128_f32(float %wide)
  ret i128 %result
}
define internal i128 @__ferrowarp_fptoui_i128_f32(float %x) {
  %all = bitcast float %x to i32
  %unsigned = and i32 %all, 2147483647
  %exponent = lshr i32 %unsigned, 23
  %stored = and i32 %unsigned, 8388607
  %significand = or i32 %stored, 8388608
  %wide = zext i32 %significand to i128
  %left = sub i32 %exponent, 150
  %right = sub i32 150, %exponent
  %left_wide = zext i32 %left to i128
  %left_shift = and i128 %left_wide, 127
  %right_wide = zext i32 %right to i128
  %right_shift = and i128 %right_wide, 127
  %large = shl i128 %wide, %left_shift
  %small = lshr i128 %wide, %right_shift
  %is_small = icmp ult i32 %exponent, 150
  %magnitude = select i1 %is_small, i128 %small, i128 %large
  %negated = sub i128 0, %magnitude
  %is_negative = icmp slt i32 %all, 0
  %within = select i1 %is_negative, i128 0, i128 %magnitude
  %end = select i1 %is_negative, i128 0, i128 340282366920938463463374607431768211455
  %is_beyond = icmp uge i32 %exponent, 255
  %ended = select i1 %is_beyond, i128 %end, i128 %within
  %is_below_one = icmp ult i32 %exponent, 127
  %is_nan = fcmp uno float %x, %x
  %is_zero = or i1 %is_below_one, %is_nan
  %result = select i1 %is_zero, i128 0, i128 %ended
  ret i128 %result
}
define internal float @__ferrowarp_uitofp_i128_f32(i128 %x) {
  %is_negative = icmp ult i128 %x, 0
  %a = add i128 %x, 0
  %zeros = call i128 @llvm.ctlz.i128(i128 %a, i1 false)
  %shift = and i128 %zeros, 127
  %aligned = shl i128 %a, %shift
  %top = lshr i128 %aligned, 104
  %rest = shl i128 %aligned, 24
  %is_above = icmp ugt i128 %rest, 170141183460469231731687303715884105728
  %is_tie = icmp eq i128 %rest, 170141183460469231731687303715884105728
  %is_odd = trunc i128 %top to i1
  %is_tie_of_odd = and i1 %is_tie, %is_odd
  %is_up = or i1 %is_above, %is_tie_of_odd
  %up = zext i1 %is_up to i32
  %kept = trunc i128 %top to i32
  %zeros_here = trunc i128 %zeros to i32
  %exponent = sub i32 253, %zeros_here
  %in_place = shl i32 %exponent, 23
  %exact = add i32 %in_place, %kept
  %rounded = add i32 %exact, %up
  %is_zero = icmp eq i128 %a, 0
  %unsigned = select i1 %is_zero, i32 0, i32 %rounded
  %sign = select i1 %is_negative, i32 2147483648, i32 0
  %all = or i32 %unsigned, %sign
  %result = bitcast i32 %all to float
  ret float %result
}
define internal double @__ferrowarp_sitofp_i128_f64(i128 %x) {
  %is_negative = icmp slt i128 %x, 0
  %negated = sub i128 0, %x
  %a = select i1 %is_negative, i128 %negated, i128 %x
  %zeros = call i128 @llvm.ctlz.i128(i128 %a, i1 false)
  %shift = and i128 %zeros, 127
  %aligned = shl i128 %a, %shift
  %top = lshr i128 %aligned, 75
  %rest = shl i128 %aligned, 53
  %is_above = icmp ugt i128 %rest, 170141183460469231731687303715884105728
  %is_tie = icmp eq i128 %rest, 170141183460469231731687303715884105728
  %is_odd = trunc i128 %top to i1
  %is_tie_of_odd = and i1 %is_tie, %is_odd
  %is_up = or i1 %is_above, %is_tie_of_odd
  %up = zext i1 %is_up to i64
  %kept = trunc i128 %top to i64
  %zeros_here = trunc i128 %zeros to i64
  %exponent = sub i64 1149, %zeros_here
  %in_place = shl i64 %exponent, 52
  %exact = add i64 %in_place, %kept
  %rounded = add i64 %exact, %up
  %is_zero = icmp eq i128 %a, 0
  %unsigned = select i1 %is_zero, i64 0, i64 %rounded
  %sign = select i1 %is_negative, i64 9223372036854775808, i64 0
  %all = or i64 %unsigned, %sign
  %result = bitcast i64 %all to double
  ret double %result
}
define internal i128 @__ferrowarp_fptosi_i128_f64(double %x) {
  %all = bitcast double %x to i64
  %unsigned = and i64 %all, 9223372036854775807
  %exponent = lshr i64 %unsigned, 52
  %stored = and i64 %unsigned, 4503599627370495
  %significand = or i64 %stored, 4503599627370496
  %wide = zext i64 %significand to i128
  %left = sub i64 %exponent, 1075
  %right = sub i64 1075, %exponent
  %left_wide = zext i64 %left to i128
  %left_shift = and i128 %left_wide, 127
  %right_wide = zext i64 %right to i128
  %right_shift = and i128 %right_wide, 127
  %large = shl i128 %wide, %left_shift
  %small = lshr i128 %wide, %right_shift
  %is_small = icmp ult i64 %exponent, 1075
  %magnitude = select i1 %is_small, i128 %small, i128 %large
  %negated = sub i128 0, %magnitude
  %is_negative = icmp slt i64 %all, 0
  %within = select i1 %is_negative, i128 %negated, i128 %magnitude
  %end = select i1 %is_negative, i128 170141183460469231731687303715884105728, i128 170141183460469231731687303715884105727
  %is_beyond = icmp uge i64 %exponent, 1150
  %ended = select i1 %is_beyond, i128 %end, i128 %within
  %is_below_one = icmp ult i64 %exponent, 1023
  %is_nan = fcmp uno double %x, %x
  %is_zero = or i1 %is_below_one, %is_nan
  %result = select i1 %is_zero, i128 0, i128 %ended
  ret i128 %result
}
declare i128 @llvm.ctlz.i128(i128, i1 immarg)
