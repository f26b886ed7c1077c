//! `cuda_std::atomic`.

use super::Row::{Absent, Differs, Fixed, Item, Same};
use super::{Difference, Group, On};

const TESTS: &[&str] = &[
    "cuda_std/tests/atomic.rs::floats_change_by_their_bits",
    "cuda_std/tests/atomic.rs::mid_level_functions",
    "cuda_std/tests/kernels/tests/ptx.rs::every_function_is_its_instruction_on_sm_75",
    "ptx_emulator/tests/device_functions.rs::functions_of_atomics",
];

pub const GROUPS: &[Group] = &[
    Group {
        path: "cuda_std::atomic",
        on: On::Both,
        rows: &[
            Item("{mid|intrinsics}"),
            Same("{S:|System}AtomicF{N:32|64}::new(f{N}) -> {S}AtomicF{N}"),
            Same("{S:|System}AtomicF{N:32|64}::into_inner({S}AtomicF{N}) -> f{N}"),
            Same(
                "{S:|System}AtomicF{N:32|64}::fetch_{add|sub|and|or|xor}(&{S}AtomicF{N}, f{N}, Ordering) -> f{N}",
            ),
            Same("{S:|System}AtomicF{N:32|64}::load(&{S}AtomicF{N}, Ordering) -> f{N}"),
            Same("{S:|System}AtomicF{N:32|64}::store(&{S}AtomicF{N}, f{N}, Ordering)"),
            Same("BlockAtomicF{N:32|64}::new(f{N}) -> BlockAtomicF{N}"),
            Same("BlockAtomicF{N:32|64}::into_inner(BlockAtomicF{N}) -> f{N}"),
            Same(
                "unsafe BlockAtomicF{N:32|64}::fetch_{add|sub|and|or|xor}(&BlockAtomicF{N}, f{N}, Ordering) -> f{N}",
            ),
            Same("unsafe BlockAtomicF{N:32|64}::load(&BlockAtomicF{N}, Ordering) -> f{N}"),
            Same("unsafe BlockAtomicF{N:32|64}::store(&BlockAtomicF{N}, f{N}, Ordering)"),
            Fixed(super::Fixed {
                item: "`SystemAtomicF32` and `SystemAtomicF64`, which have device scope",
                here: "system scope",
                test: "cuda_std/tests/kernels/tests/ptx.rs::every_function_is_its_instruction_on_sm_75",
            }),
        ],
        tests: TESTS,
    },
    Group {
        path: "cuda_std::atomic::mid",
        on: On::Both,
        rows: &[
            Same("{device|block|system}_thread_fence(Ordering)"),
            Same("unsafe atomic_load_{N:32|64}_{device|block|system}(*mut u{N}, Ordering) -> u{N}"),
            Same("unsafe atomic_store_{N:32|64}_{device|block|system}(*mut u{N}, Ordering, u{N})"),
            Same(
                "unsafe atomic_fetch_{and|or|xor|add|sub|exch}_{T:u32|u64|i32|i64|f32|f64}_{device|block|system}(*mut {T}, Ordering, {T}) -> {T}",
            ),
            Same(
                "unsafe atomic_fetch_{min|max}_{T:u32|u64|i32|i64}_{device|block|system}(*mut {T}, Ordering, {T}) -> {T}",
            ),
            Same(
                "unsafe atomic_compare_and_swap_{T:u32|u64|i32|i64|f32|f64}_{device|block|system}(*mut {T}, {T}, {T}, Ordering) -> {T}",
            ),
            Differs(Difference {
                item: "the functions on GPUs before compute capability 7.0, with `membar` and volatile accesses",
                here: "the instructions of 7.0 and later",
                reason: "libNVVM 13 compiles only for 7.5 and later",
                error: "`NvvmArch` has no earlier architecture",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
        ],
        tests: TESTS,
    },
    Group {
        path: "cuda_std::atomic::intrinsics",
        on: On::Both,
        rows: &[
            Same("unsafe {membar|fence_sc|fence_acqrel}_{device|block|system}()"),
            Same(
                "unsafe atomic_load_{relaxed|acquire|volatile}_{N:32|64}_{device|block|system}(*const u{N}) -> u{N}",
            ),
            Same(
                "unsafe atomic_store_{relaxed|release|volatile}_{N:32|64}_{device|block|system}(*mut u{N}, u{N})",
            ),
            Same(
                "unsafe atomic_fetch_{and|or|xor|add|sub|exch}_{relaxed|acquire|release|acqrel|volatile}_{T:u32|u64|i32|i64|f32|f64}_{device|block|system}(*mut {T}, {T}) -> {T}",
            ),
            Same(
                "unsafe atomic_fetch_{min|max}_{relaxed|acquire|release|acqrel|volatile}_{T:u32|u64|i32|i64}_{device|block|system}(*mut {T}, {T}) -> {T}",
            ),
            Same(
                "unsafe atomic_fetch_cas_{relaxed|acquire|release|acqrel|volatile}_{T:u32|u64|i32|i64|f32|f64}_{device|block|system}(*mut {T}, {T}, {T}) -> {T}",
            ),
            Fixed(super::Fixed {
                item: "`fence_.._device` and `fence_acqrel_block`, which are spelled `.gl` and `.sys`",
                here: "`.gpu` and `.cta` (PTX ISA, `fence`)",
                test: "cuda_std/tests/kernels/tests/ptx.rs::every_function_is_its_instruction_on_sm_75",
            }),
            Differs(Difference {
                item: "`atomic_fetch_inc_..` and `atomic_fetch_dec_..` of `u32`, which take only the pointer",
                here: "they take the pointer and the value at which they wrap",
                reason: "`atom.inc` and `atom.dec` need that operand (PTX ISA, `atom`); ptxas rejects upstream's form",
                error: "rustc: `this function takes 2 arguments but 1 argument was supplied`",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
            Absent(Difference {
                item: "`atomic_fetch_inc_..` and `atomic_fetch_dec_..` of other types",
                here: "`atomic_fetch_add_..`",
                reason: "PTX has `atom.inc` and `atom.dec` only for `u32`; ptxas rejects the others",
                error: "rustc: `cannot find function`",
                test: "lab/compat-kernels/tests/upstream.rs::what_is_absent_does_not_compile",
            }),
        ],
        tests: TESTS,
    },
];
