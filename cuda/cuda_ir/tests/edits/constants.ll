; edit: constants
target datalayout = "e"

; Statics that cannot change go to constant memory while there is room; what the source does not name stays.
@_RNvCsabc_4mine5SMALL = constant [256 x i8] zeroinitializer, align 4
@_RNvCsabc_4mine6STRUCT = internal constant <{ ptr, [8 x i8] }> <{ ptr @_RNvCsabc_4mine5SMALL, [8 x i8] zeroinitializer }>, align 8
@_RNvCsabc_4mine6PLACED = constant [60000 x i8] zeroinitializer, section ".ferrowarp.constant", align 4
@_RNvCsabc_4mine5LARGE = constant [8192 x i8] zeroinitializer, align 4
@_RNvCsabc_4mine7CHANGES = global [16 x i8] zeroinitializer, align 4
@_RNvCsabc_4mine4LAST = constant [64 x i8] zeroinitializer, align 4
@alloc_0123 = private unnamed_addr constant [4 x i8] c"text", align 1

; ---- becomes ----
target datalayout = "e"
@_RNvCsabc_4mine5SMALL = constant [256 x i8] zeroinitializer, align 4, section ".ferrowarp.constant"
@_RNvCsabc_4mine6STRUCT = internal constant <{ ptr, [8 x i8] }> <{ ptr @_RNvCsabc_4mine5SMALL, [8 x i8] zeroinitializer }>, align 8, section ".ferrowarp.constant"
@_RNvCsabc_4mine6PLACED = constant [60000 x i8] zeroinitializer, section ".ferrowarp.constant", align 4
@_RNvCsabc_4mine5LARGE = constant [8192 x i8] zeroinitializer, align 4
@_RNvCsabc_4mine7CHANGES = global [16 x i8] zeroinitializer, align 4
@_RNvCsabc_4mine4LAST = constant [64 x i8] zeroinitializer, align 4, section ".ferrowarp.constant"
@alloc_0123 = private unnamed_addr constant [4 x i8] c"text", align 1
