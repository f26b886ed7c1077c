//! The seeds that are texts.

/// A file whose head stands among comments and strings with braces.
pub const COMMENTS: &str = "// {\n/* .version 1.0 { \" */\n.version 8.6\n.target sm_75\n.address_size 64\n\
    .file 1 \"a{.rs\"\n.func f() { ret; }\n";

/// The output of ptxas 13.0 for [`MODULE`].
pub const LOG: &str = "ptxas info    : 0 bytes gmem, 20 bytes cmem[3]
ptxas info    : Compiling entry function 'k' for 'sm_75'
ptxas info    : Function properties for k
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 6 registers, used 1 barriers, 16 bytes cumulative stack size, 64 bytes smem, 360 bytes cmem[0]
ptxas info    : Compile time = 26.008 ms
ptxas info    : Function properties for helper
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";

/// A kernel with a function, a constant, shared and local memory.
pub const MODULE: &str = ".version 8.6
.target sm_75
.address_size 64

.const .align 4 .b32 table[5] = {1, 2, 3, 4, 5};

.func helper(.param .b64 p)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	ld.const.b32 %r1, [table+4];
	st.b32 [%rd1], %r1;
	ret;
}

.visible .entry k(
	.param .u64 k_out
)
.maxntid 256
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	// a tile of 16 words
	.shared .align 4 .b8 tile[64];
	.local .align 4 .b8 depot[16];
	ld.param.u64 %rd1, [k_out];
	mov.u32 %r1, %tid.x;
	and.b32 %r2, %r1, 3;
	mul.wide.u32 %rd3, %r2, 4;
	mov.u64 %rd2, depot;
	add.s64 %rd2, %rd2, %rd3;
	st.local.b32 [%rd2], %r1;
	st.shared.b32 [tile], %r1;
	bar.sync 0;
	{
	.param .b64 a;
	st.param.b64 [a], %rd1;
	call.uni helper, (a);
	}
	ld.shared.b32 %r3, [tile];
	ld.local.b32 %r2, [depot];
	add.s32 %r3, %r3, %r2;
	st.global.b32 [%rd1], %r3;
	ret;
}
";

/// A whole module for all the edits.
pub const IR: &str = r#"; ModuleID = 'k'
source_filename = "k"
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@tile = internal global [64 x i8] undef, section ".ferrowarp.shared", align 16
@table = internal constant <{ [4 x i8] }> <{ [4 x i8] c"\01\02\03\04" }>, section ".ferrowarp.constant", align 4
@llvm.used = appending global [1 x ptr] [ptr @tile], section "llvm.metadata"

define ptx_kernel void @k(ptr %out, i64 %n) unnamed_addr section ".ferrowarp.bounds.256.2" #0 !dbg !3 {
start:
  %v = load float, ptr @tile, align 4
  call void @help(ptr %out, ptr @table) #1
  call void asm sideeffect "bar.sync 0;", "~{memory}"() #2
  ret void
}

define internal void @help(ptr %0, ptr %1) #0 {
  ret void
}

declare void @llvm.trap() #2

attributes #0 = { nounwind "target-cpu"="sm_75" }
attributes #1 = { noinline }
attributes #2 = { convergent }
!llvm.module.flags = !{!0}
!0 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{}
"#;
