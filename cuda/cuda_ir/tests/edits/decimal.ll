; edit: decimal
define internal ptr @_RNvMs2_NtNtCsgJ6ytTPJmYV_4core3num6bignumNtB5_8Big32x408mul_pow2(ptr %self, i64 %bits) unnamed_addr #1 {
start:
  ret ptr %self
}
define internal void @_RNvNtNtCsgJ6ytTPJmYV_4core3num7flt2dec8round_up(ptr %x) {
start:
  ret void
}
define internal void @_RNvNtNtCsabc_4mine3num7flt2dec8round_up(ptr %x) {
start:
  ret void
}

; ---- becomes ----
define internal ptr @_RNvMs2_NtNtCsgJ6ytTPJmYV_4core3num6bignumNtB5_8Big32x408mul_pow2(ptr %self, i64 %bits) unnamed_addr noinline minsize optsize #1 {
start:
  ret ptr %self
}
define internal void @_RNvNtNtCsgJ6ytTPJmYV_4core3num7flt2dec8round_up(ptr %x) minsize optsize {
start:
  ret void
}
define internal void @_RNvNtNtCsabc_4mine3num7flt2dec8round_up(ptr %x) {
start:
  ret void
}
