//! What kernels use, without atomics and libdevice.

use super::Row::{Differs, Fixed, Item, Same};
use super::{Difference, Group, On};

pub const GROUPS: &[Group] = &[
    Group {
        path: "cuda_std",
        on: On::Both,
        rows: &[
            Item("{atomic|float|intrinsics|io|mem|misc|ptr|shared|thread|warp}"),
            Item("{kernel|gpu_only|externally_visible|address_space}"),
            Item("{GpuFloat|FloatExt|glam|half|f16|bf16}"),
            Item("{print|println|assert_eq|assert_ne}"),
            Item("prelude::{f16|kernel|thread|assert_eq|assert_ne|print|println}"),
            Item("prelude::{ToOwned|Box|format|Rc|String|ToString|Vec}"),
            Differs(Difference {
                item: "vek",
                here: "`cuda_std::vek` with the feature `vek`",
                reason: "upstream deprecates it, and every user of glam would compile it too",
                error: "rustc: `could not find vek in cuda_std`, `the item is gated behind the vek feature`",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
            Differs(Difference {
                item: "the message of `assert_eq!` and `assert_ne!`",
                here: "a panic with file, line and both expressions, without their values",
                reason: "formatting values costs code and memory; upstream's own message is truncated",
                error: "the panic's record says which assertion failed",
                test: "lab/compat-kernels/tests/asserts.rs::the_ptx_says_which_assertion_failed",
            }),
            Differs(Difference {
                item: "`#[address_space(local)]`",
                here: "a local variable",
                reason: "PTX has no `.local` variables outside of functions",
                error: "`a static cannot live in local memory, which belongs to one thread`",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
            Differs(Difference {
                item: "`#[kernel]` on the host, which leaves only the function",
                here: "also a type of the same name with `launch`; `NAME_kernel` if a module has that name",
                reason: "the typed launch needs a place",
                error: "rustc: E0255 for another type of that name in the module",
                test: "lab/compat-kernels/src/tests.rs::a_module_of_the_name_is_no_obstacle",
            }),
            Fixed(super::Fixed {
                item: "`print!` and `println!`, which pass the text as the format, so a `%` in it breaks",
                here: "the text is printed unchanged",
                test: "lab/compat-kernels/tests/heap.rs::the_ptx_prints_through_the_driver",
            }),
            Fixed(super::Fixed {
                item: "the panic handler, which only traps",
                here: "it first writes a record of message, file, line, block and thread for the host",
                test: "ptx_emulator/tests/device_functions.rs::panics_leave_the_record_of_the_first_thread",
            }),
            Fixed(super::Fixed {
                item: "the allocator, which ignores alignments over 16 bytes",
                here: "blocks have the requested alignment",
                test: "lab/compat-kernels/tests/heap.rs::blocks_are_aligned",
            }),
            Fixed(super::Fixed {
                item: "`#[externally_visible]`, which does not know `#[unsafe(no_mangle)]`",
                here: "both forms",
                test: "lab/compat-kernels/tests/ptx.rs::the_ptx_is_what_the_sources_say",
            }),
            Fixed(super::Fixed {
                item: "conversions of floats outside the range of the integer, which are undefined",
                here: "they saturate, as everywhere in Rust",
                test: "lab/compat-kernels/tests/wide.rs::floats_become_integers_of_128_bits",
            }),
        ],
        tests: &[
            "lab/compat-kernels/tests/heap.rs::the_ptx_prints_through_the_driver",
            "lab/compat-kernels/tests/heap.rs::text_is_what_std_makes_of_it",
            "lab/compat-kernels/tests/types.rs::bodies_are_moved",
            "lab/compat-kernels/tests/asserts.rs::assertions_that_hold_say_nothing",
            "lab/compat-kernels/tests/params.rs::aliases_are_what_they_stand_for",
            "lab/compat-kernels/tests/params.rs::structs_go_by_value",
            "cuda_std/tests/shared_static.rs::statics_of_a_module_and_of_a_function",
            "lab/compat-kernels/tests/ptx.rs::the_ptx_is_what_the_sources_say",
        ],
    },
    Group {
        path: "cuda_std::thread",
        on: On::Both,
        rows: &[
            Same("{thread_idx|block_idx|block_dim|grid_dim}_{x|y|z}() -> u32"),
            Same("{thread_idx|block_idx|block_dim|grid_dim}() -> cuda_std::glam::UVec3"),
            Same("{index|index_1d|warp_size}() -> u32"),
            Same("index_2d() -> cuda_std::glam::UVec2"),
            Same("index_3d() -> cuda_std::glam::UVec3"),
            Same("first() -> bool"),
            Same("sync_threads()"),
            Same("sync_threads_{count|and|or}(u32) -> u32"),
            Same("{grid|device|system}_fence()"),
            Same("nanosleep(u32)"),
            Fixed(super::Fixed {
                item: "`grid_fence`, which orders only within the block",
                here: "it orders for the grid, as its name says",
                test: "cuda_std/tests/kernels/tests/ptx.rs::every_function_is_its_instruction_on_sm_75",
            }),
        ],
        tests: &[
            "cuda_std/tests/thread.rs::indices_follow_the_launch",
            "cuda_std/tests/thread.rs::index_numbers_all_threads_once",
            "cuda_std/tests/thread.rs::counting_barriers",
            "lab/compat-kernels/tests/cpu.rs::positives_are_counted_by_barriers",
            "cuda_std/tests/kernels/tests/ptx.rs::every_function_is_its_instruction_on_sm_75",
        ],
    },
    Group {
        path: "cuda_std::warp",
        on: On::Both,
        rows: &[
            Same("unsafe sync_warp(u32)"),
            Same("{lane_id|activemask}() -> u32"),
            Same("unsafe warp_reduce::<{T:i32|u32}>(u32, {T}, WarpReductionOp) -> {T}"),
            Same("unsafe warp_match_any::<{T:i32|i64|u32|u64|f32|f64}>(u32, {T}) -> u32"),
            Same("unsafe warp_match_all::<{T:i32|i64|u32|u64|f32|f64}>(u32, {T}) -> Option<u32>"),
            Same("unsafe warp_vote_{all|any}(u32, bool) -> bool"),
            Same("unsafe warp_vote_ballot(u32, bool) -> u32"),
            Same(
                "unsafe warp_shuffle_{down|up|idx|xor}::<{T:i8|i16|i32|i64|i128|u8|u16|u32|u64|u128}>(u32, {T}, u32, u32) -> ({T}, bool)",
            ),
            Same(
                "unsafe warp_shuffle_{down|up|idx|xor}::<{T:f32|f64|cuda_std::f16|cuda_std::bf16}>(u32, {T}, u32, u32) -> ({T}, bool)",
            ),
            Item(
                "{WarpReductionOp|WarpReduceValue|WarpMatchValue|WarpShuffleValue|WarpShuffleMode|WarpShuffleResult}",
            ),
            Item("WarpReductionOp::{Add|Min|Max|And|Or|Xor}"),
            Fixed(super::Fixed {
                item: "`warp_shuffle_up`, which returns the lane's own value",
                here: "it returns the value of the lower lane (PTX ISA, `shfl.sync`: the clamp of `up` is 0)",
                test: "cuda_std/tests/warp.rs::shuffles_follow_the_ptx_isa",
            }),
            Fixed(super::Fixed {
                item: "the shuffles, which take any `width`",
                here: "a panic if it is not a power of two up to 32",
                test: "cuda_std/tests/warp.rs::a_width_that_is_no_power_of_two_is_refused",
            }),
            Fixed(super::Fixed {
                item: "`warp_match_any` and `warp_match_all` of floats, which compare the values truncated to integers",
                here: "they compare the bits",
                test: "cuda_std/tests/warp.rs::matches_compare_bits",
            }),
        ],
        tests: &[
            "cuda_std/tests/warp.rs::shuffles_carry_every_type",
            "cuda_std/tests/warp.rs::votes",
            "cuda_std/tests/warp.rs::integer_reductions",
            "cuda_std/tests/warp.rs::match_all_gives_the_mask",
            "ptx_emulator/tests/device_functions.rs::functions_of_warps",
        ],
    },
    Group {
        path: "cuda_std::shared",
        on: On::Both,
        rows: &[Same("dynamic_shared_mem::<f32>() -> *mut f32")],
        tests: &["cuda_std/tests/shared.rs::dynamic_shared_memory"],
    },
    Group {
        path: "cuda_std::mem",
        on: On::Both,
        rows: &[
            Same("{dynamic|total}_smem_size() -> u32"),
            Same("unsafe malloc(usize) -> *mut c_void"),
            Same("unsafe free(*mut c_void)"),
            Item("{CUDAAllocator|GLOBAL_ALLOCATOR}"),
        ],
        tests: &[
            "cuda_std/tests/shared.rs::dynamic_shared_memory",
            "lab/compat-kernels/tests/heap.rs::blocks_by_malloc",
            "lab/compat-kernels/tests/heap.rs::blocks_are_aligned",
        ],
    },
    Group {
        path: "cuda_std::io",
        on: On::Device,
        rows: &[
            Same("unsafe vprintf(*const u8, *const c_void) -> i32"),
            Same("unsafe __assertfail(*const u8, *const u8, u32, *const u8, usize)"),
        ],
        tests: &[
            "ptx_emulator/tests/system.rs::formats_are_those_of_c",
            "ptx_emulator/tests/system.rs::a_failed_assertion_is_a_fault_with_its_texts",
        ],
    },
    Group {
        path: "cuda_std::ptr",
        on: On::Both,
        rows: &[
            Item("AddressSpace::{Global|Shared|Constant|Local}"),
            Same("unsafe is_in_address_space::<u32>(*const u32, AddressSpace) -> bool"),
            Same(
                "unsafe convert_generic_to_specific_address_space::<u32>(*const u32, AddressSpace) -> *const u32",
            ),
            Same(
                "unsafe convert_specific_address_space_to_generic::<u32>(*const u32, AddressSpace) -> *const u32",
            ),
        ],
        tests: &[
            "cuda_std/tests/memory.rs::the_host_has_one_address_space",
            "cuda_std/tests/kernels/tests/ptx.rs::every_function_is_its_instruction_on_sm_75",
        ],
    },
    Group {
        path: "cuda_std::misc",
        on: On::Both,
        rows: &[
            Same("breakpoint()"),
            Same("profiler_counter(u32)"),
            Same("clock() -> u64"),
            Fixed(super::Fixed {
                item: "`profiler_counter`, whose PTX ptxas rejects",
                here: "`pmevent` with a constant operand",
                test: "cuda_std/tests/kernels/tests/ptx.rs::every_function_is_its_instruction_on_sm_75",
            }),
        ],
        tests: &[
            "cuda_std/tests/memory.rs::the_clock_does_not_run_backwards",
            "cuda_std/tests/kernels/tests/ptx.rs::every_function_is_its_instruction_on_sm_75",
        ],
    },
    Group {
        path: "cuda_std::float",
        on: On::Both,
        rows: &[
            Same(
                "<{T:f32|f64} as GpuFloat>::{floor|ceil|round|trunc|fract|abs|signum|sqrt|exp|exp2|ln|log2|log10|cbrt}({T}) -> {T}",
            ),
            Same(
                "<{T:f32|f64} as GpuFloat>::{sin|cos|tan|asin|acos|atan|exp_m1|ln_1p|sinh|cosh|tanh|asinh|acosh|atanh}({T}) -> {T}",
            ),
            Same(
                "<{T:f32|f64} as GpuFloat>::{copysign|div_euclid|rem_euclid|powf|log|hypot|atan2}({T}, {T}) -> {T}",
            ),
            Same("<{T:f32|f64} as GpuFloat>::mul_add({T}, {T}, {T}) -> {T}"),
            Same("<{T:f32|f64} as GpuFloat>::powi({T}, i32) -> {T}"),
            Same("<{T:f32|f64} as GpuFloat>::sin_cos({T}) -> ({T}, {T})"),
            Same(
                "<{T:f32|f64} as FloatExt>::{cospi|sinpi|j0|j1|y0|y1|log_gamma|gamma|log1p|norm_cdf|inv_norm_cdf|rcbrt|saturate}({T}) -> {T}",
            ),
            Same(
                "<{T:f32|f64} as FloatExt>::{error_function|complementary_error_function|inv_complementary_error_function|scaled_complementary_error_function}({T}) -> {T}",
            ),
            Same("<{T:f32|f64} as FloatExt>::sincospi({T}) -> ({T}, {T})"),
            Same("<{T:f32|f64} as FloatExt>::frexp({T}) -> ({T}, i32)"),
            Same("<{T:f32|f64} as FloatExt>::unbiased_exp({T}) -> i32"),
            Same("<{T:f32|f64} as FloatExt>::{jn|yn|ldexp|scale_by_n}({T}, i32) -> {T}"),
        ],
        tests: &[
            "cuda_std/tests/memory.rs::gpu_float_is_std_on_the_host",
            "cuda_std/tests/memory.rs::float_ext_on_the_host",
            "ptx_emulator/tests/device_functions.rs::functions_of_floats",
            "lab/compat-kernels/tests/cpu.rs::mathematics",
        ],
    },
];
