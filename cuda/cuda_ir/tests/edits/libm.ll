; edit: libm
target datalayout = "e"

; Functions of floats of one width become libdevice's, whatever their bodies; others stay.
define internal noundef float @_RNvNtNtCsabc_4libm4math4sinf4sinf(float noundef %x) unnamed_addr #0 {
  ret float 0.0
}

define internal noundef double @_RNvNtNtCsabc_4libm4math3pow3pow(double noundef %x, double noundef %y) unnamed_addr #0 {
start:
  br label %next
next:
  ret double %x
}

define internal noundef double @_RNvNtNtCsabc_4libm4math5ldexp5ldexp(double noundef %x, i32 noundef %n) unnamed_addr #0 {
  ret double %x
}

define internal noundef float @_RNvNtNtCsabc_4libm4math3sin3sin(float noundef %x) unnamed_addr #0 {
  ret float %x
}

define internal noundef float @_RNvNtCsabc_4mine4math4sinf(float noundef %x) unnamed_addr #0 {
  ret float %x
}

declare double @__nv_pow(double, double)

attributes #0 = { nounwind }

; ---- becomes ----
target datalayout = "e"
define internal noundef float @_RNvNtNtCsabc_4libm4math4sinf4sinf(float noundef %x) unnamed_addr #0 {
start:
  %result = call float @__nv_sinf(float %x)
  ret float %result
}
define internal noundef double @_RNvNtNtCsabc_4libm4math3pow3pow(double noundef %x, double noundef %y) unnamed_addr #0 {
start:
  %result = call double @__nv_pow(double %x, double %y)
  ret double %result
}
define internal noundef double @_RNvNtNtCsabc_4libm4math5ldexp5ldexp(double noundef %x, i32 noundef %n) unnamed_addr #0 {
  ret double %x
}
define internal noundef float @_RNvNtNtCsabc_4libm4math3sin3sin(float noundef %x) unnamed_addr #0 {
  ret float %x
}
define internal noundef float @_RNvNtCsabc_4mine4math4sinf(float noundef %x) unnamed_addr #0 {
  ret float %x
}
declare double @__nv_pow(double, double)
attributes #0 = { nounwind }
declare float @__nv_sinf(float)
