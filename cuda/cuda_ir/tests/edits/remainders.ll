; edit: remainders
define void @f(float %x, double %y, half %h, <2 x float> %v) !dbg !3 {
start:
  %0 = frem float %x, 3.000000e+00, !dbg !4
  %named = frem reassoc nsz contract float %0, %x
  %1 = frem double 0x7FF0000000000000, %y
  %2 = frem half %h, %h
  %3 = frem <2 x float> %v, <float 1.000000e+00, float -2.000000e+00>, !dbg !4
  ; %4 = frem float %x, %x
  ret void
}
define void @g(float %x) {
  %" = frem " = fadd float %x, %x
  ret void
}

; ---- becomes ----
define void @f(float %x, double %y, half %h, <2 x float> %v) !dbg !3 {
start:
  %0 = call float @__ferrowarp_frem_f32(float %x, float 3.000000e+00), !dbg !4
  %named = call float @__ferrowarp_frem_f32(float %0, float %x)
  %1 = call double @__ferrowarp_frem_f64(double 0x7FF0000000000000, double %y)
  %2 = call half @__ferrowarp_frem_f16(half %h, half %h)
  %"left 0 of remainder 5" = extractelement <2 x float> %v, i32 0
  %"right 0 of remainder 5" = extractelement <2 x float> <float 1.000000e+00, float -2.000000e+00>, i32 0
  %"call 0 of remainder 5" = call float @__ferrowarp_frem_f32(float %"left 0 of remainder 5", float %"right 0 of remainder 5"), !dbg !4
  %"with 0 of remainder 5" = insertelement <2 x float> poison, float %"call 0 of remainder 5", i32 0
  %"left 1 of remainder 5" = extractelement <2 x float> %v, i32 1
  %"right 1 of remainder 5" = extractelement <2 x float> <float 1.000000e+00, float -2.000000e+00>, i32 1
  %"call 1 of remainder 5" = call float @__ferrowarp_frem_f32(float %"left 1 of remainder 5", float %"right 1 of remainder 5"), !dbg !4
  %3 = insertelement <2 x float> %"with 0 of remainder 5", float %"call 1 of remainder 5", i32 1
  ; %4 = frem float %x, %x
  ret void
}
define void @g(float %x) {
  %" = frem " = fadd float %x, %x
  ret void
}
define internal half @__ferrowarp_frem_f16(half %x, half %y) {
  %wide_x = fpext half %x to float
  %wide_y = fpext half %y to float
  %wide = call float @__ferrowarp_frem_f32(float %wide_x, float %wide_y)
  %result = fptrunc float %wide to half
  ret half %result
}
define internal float @__ferrowarp_frem_f32(float %x, float %y) {
start:
  %x_bits = bitcast float %x to i32
  %y_bits = bitcast float %y to i32
  %x_size = and i32 %x_bits, 2147483647
  %y_size = and i32 %y_bits, 2147483647
  %y_is_zero = icmp eq i32 %y_size, 0
  %y_is_nan = icmp ugt i32 %y_size, 2139095040
  %x_is_not_finite = icmp uge i32 %x_size, 2139095040
  %y_is_no_divisor = or i1 %y_is_zero, %y_is_nan
  %is_undefined = or i1 %y_is_no_divisor, %x_is_not_finite
  br i1 %is_undefined, label %nan, label %defined
nan:
  ret float 0x7FF8000000000000
defined:
  %is_smaller = icmp ult i32 %x_size, %y_size
  br i1 %is_smaller, label %smaller, label %divide
smaller:
  ret float %x
divide:
  %x_stored = lshr i32 %x_size, 23
  %x_is_normal = icmp ne i32 %x_stored, 0
  %x_exponent = select i1 %x_is_normal, i32 %x_stored, i32 1
  %x_fraction = and i32 %x_size, 8388607
  %x_leading = select i1 %x_is_normal, i32 8388608, i32 0
  %x_significand = or i32 %x_fraction, %x_leading
  %x_wide = zext i32 %x_significand to i64
  %y_stored = lshr i32 %y_size, 23
  %y_is_normal = icmp ne i32 %y_stored, 0
  %y_exponent = select i1 %y_is_normal, i32 %y_stored, i32 1
  %y_fraction = and i32 %y_size, 8388607
  %y_leading = select i1 %y_is_normal, i32 8388608, i32 0
  %y_significand = or i32 %y_fraction, %y_leading
  %y_wide = zext i32 %y_significand to i64
  %places = sub i32 %x_exponent, %y_exponent
  br label %step
step:
  %before = phi i64 [ %x_wide, %divide ], [ %wide_rest, %step ]
  %left = phi i32 [ %places, %divide ], [ %left_then, %step ]
  %is_last = icmp ule i32 %left, 40
  %shift = select i1 %is_last, i32 %left, i32 40
  %wide_shift = zext i32 %shift to i64
  %shifted = shl i64 %before, %wide_shift
  %wide_rest = urem i64 %shifted, %y_wide
  %left_then = sub i32 %left, %shift
  br i1 %is_last, label %done, label %step
done:
  %rest = trunc i64 %wide_rest to i32
  %zeros = call i32 @llvm.ctlz.i32(i32 %rest, i1 false)
  %to_leading = sub i32 %zeros, 8
  %to_least = sub i32 %y_exponent, 1
  %is_normal = icmp ult i32 %to_leading, %to_least
  %up = select i1 %is_normal, i32 %to_leading, i32 %to_least
  %aligned = shl i32 %rest, %up
  %exponent = sub i32 %to_least, %up
  %in_place = shl i32 %exponent, 23
  %not_zero = add i32 %aligned, %in_place
  %is_zero = icmp eq i32 %rest, 0
  %size = select i1 %is_zero, i32 0, i32 %not_zero
  %sign = and i32 %x_bits, 2147483648
  %result_bits = or i32 %size, %sign
  %result = bitcast i32 %result_bits to float
  ret float %result
}
declare i32 @llvm.ctlz.i32(i32, i1 immarg)
define internal double @__ferrowarp_frem_f64(double %x, double %y) {
start:
  %x_bits = bitcast double %x to i64
  %y_bits = bitcast double %y to i64
  %x_size = and i64 %x_bits, 9223372036854775807
  %y_size = and i64 %y_bits, 9223372036854775807
  %y_is_zero = icmp eq i64 %y_size, 0
  %y_is_nan = icmp ugt i64 %y_size, 9218868437227405312
  %x_is_not_finite = icmp uge i64 %x_size, 9218868437227405312
  %y_is_no_divisor = or i1 %y_is_zero, %y_is_nan
  %is_undefined = or i1 %y_is_no_divisor, %x_is_not_finite
  br i1 %is_undefined, label %nan, label %defined
nan:
  ret double 0x7FF8000000000000
defined:
  %is_smaller = icmp ult i64 %x_size, %y_size
  br i1 %is_smaller, label %smaller, label %divide
smaller:
  ret double %x
divide:
  %x_stored = lshr i64 %x_size, 52
  %x_is_normal = icmp ne i64 %x_stored, 0
  %x_exponent = select i1 %x_is_normal, i64 %x_stored, i64 1
  %x_fraction = and i64 %x_size, 4503599627370495
  %x_leading = select i1 %x_is_normal, i64 4503599627370496, i64 0
  %x_significand = or i64 %x_fraction, %x_leading
  %x_wide = add i64 %x_significand, 0
  %y_stored = lshr i64 %y_size, 52
  %y_is_normal = icmp ne i64 %y_stored, 0
  %y_exponent = select i1 %y_is_normal, i64 %y_stored, i64 1
  %y_fraction = and i64 %y_size, 4503599627370495
  %y_leading = select i1 %y_is_normal, i64 4503599627370496, i64 0
  %y_significand = or i64 %y_fraction, %y_leading
  %y_wide = add i64 %y_significand, 0
  %places = sub i64 %x_exponent, %y_exponent
  br label %step
step:
  %before = phi i64 [ %x_wide, %divide ], [ %wide_rest, %step ]
  %left = phi i64 [ %places, %divide ], [ %left_then, %step ]
  %is_last = icmp ule i64 %left, 11
  %shift = select i1 %is_last, i64 %left, i64 11
  %wide_shift = add i64 %shift, 0
  %shifted = shl i64 %before, %wide_shift
  %wide_rest = urem i64 %shifted, %y_wide
  %left_then = sub i64 %left, %shift
  br i1 %is_last, label %done, label %step
done:
  %rest = add i64 %wide_rest, 0
  %zeros = call i64 @llvm.ctlz.i64(i64 %rest, i1 false)
  %to_leading = sub i64 %zeros, 11
  %to_least = sub i64 %y_exponent, 1
  %is_normal = icmp ult i64 %to_leading, %to_least
  %up = select i1 %is_normal, i64 %to_leading, i64 %to_least
  %aligned = shl i64 %rest, %up
  %exponent = sub i64 %to_least, %up
  %in_place = shl i64 %exponent, 52
  %not_zero = add i64 %aligned, %in_place
  %is_zero = icmp eq i64 %rest, 0
  %size = select i1 %is_zero, i64 0, i64 %not_zero
  %sign = and i64 %x_bits, 9223372036854775808
  %result_bits = or i64 %size, %sign
  %result = bitcast i64 %result_bits to double
  ret double %result
}
declare i64 @llvm.ctlz.i64(i64, i1 immarg)
