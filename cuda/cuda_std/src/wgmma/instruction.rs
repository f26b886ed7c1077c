//! The instruction for each number of columns, with its accumulators as operands.

mod sealed {
    pub trait Sealed {}
}

/// The accumulators of a thread, `[f32; REGISTERS]`: a multiple of 4 from 4 to 128, for twice that number of columns.
pub trait Registers: sealed::Sealed + Copy {
    /// Executes one instruction with A in shared memory.
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives); `keep` is 0 or 1.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn multiply_shared<T: super::Element, const TRANS_A: i32, const TRANS_B: i32>(
        &mut self,
        a: u64,
        b: u64,
        keep: u32,
    );

    /// Executes one instruction with A in registers.
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives); `keep` is 0 or 1.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn multiply_registers<T: super::Element, const TRANS_B: i32>(
        &mut self,
        a: [u32; 4],
        b: u64,
        keep: u32,
    );

    /// Keeps accesses to the registers on their side of the call, without an instruction.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    fn pin(&mut self);
}

/// `wgmma.mma_async` of `$n` columns with the accumulators `$i` of `$d`. The operands of the assembly are first the
/// numbered accumulators, then the named ones.
#[cfg(target_arch = "nvptx64")]
macro_rules! wgmma_asm {
    ($n:literal, $k:literal, $ty:literal, $a:literal, $tail:literal, $d:ident, [$first:tt $($i:tt)*], $($operands:tt)*) => {
        core::arch::asm!(
            concat!(
                "{{ .reg .pred keeps; setp.ne.b32 keeps, {keep}, 0; wgmma.mma_async.sync.aligned.m64n", $n, $k, ".f32.", $ty, ".",
                $ty, " {{{", $first, "}", $(", {", $i, "}",)* "}}, ", $a, ", {b}, keeps, 1, 1", $tail, "; }}"
            ),
            inout(reg32) $d[$first], $(inout(reg32) $d[$i],)*
            $($operands)*
            options(nostack, preserves_flags),
        )
    };
}

#[cfg(target_arch = "nvptx64")]
macro_rules! registers {
    ($n:literal, $count:literal, $all:tt) => {
        registers! { @implement $n, $count, $all, "{a}", "{{{a0}, {a1}, {a2}, {a3}}}" }
    };
    (@implement $n:literal, $count:literal, [$first:tt $($i:tt)*], $shared:literal, $registers:literal) => {
        impl sealed::Sealed for [f32; $count] {}

        impl Registers for [f32; $count] {
            #[inline(always)]
            unsafe fn multiply_shared<T: super::Element, const TRANS_A: i32, const TRANS_B: i32>(
                &mut self,
                a: u64,
                b: u64,
                keep: u32,
            ) {
                let d = self;
                // SAFETY: all threads of the warpgroup execute this.
                unsafe {
                    match T::NUMBER {
                        super::Number::F16 => wgmma_asm!($n, "k16", "f16", $shared, ", {ta}, {tb}", d, [$first $($i)*],
                            a = in(reg64) a, b = in(reg64) b, keep = in(reg32) keep, ta = const TRANS_A,
                            tb = const TRANS_B,),
                        super::Number::Bf16 => wgmma_asm!($n, "k16", "bf16", $shared, ", {ta}, {tb}", d,
                            [$first $($i)*], a = in(reg64) a, b = in(reg64) b, keep = in(reg32) keep,
                            ta = const TRANS_A, tb = const TRANS_B,),
                        super::Number::Tf32 => wgmma_asm!($n, "k8", "tf32", $shared, "", d, [$first $($i)*],
                            a = in(reg64) a, b = in(reg64) b, keep = in(reg32) keep,),
                        super::Number::E4m3 => wgmma_asm!($n, "k32", "e4m3", $shared, "", d, [$first $($i)*],
                            a = in(reg64) a, b = in(reg64) b, keep = in(reg32) keep,),
                    }
                }
            }

            #[inline(always)]
            unsafe fn multiply_registers<T: super::Element, const TRANS_B: i32>(
                &mut self,
                [a0, a1, a2, a3]: [u32; 4],
                b: u64,
                keep: u32,
            ) {
                let d = self;
                // SAFETY: all threads of the warpgroup execute this.
                unsafe {
                    match T::NUMBER {
                        super::Number::F16 => wgmma_asm!($n, "k16", "f16", $registers, ", {tb}", d, [$first $($i)*],
                            a0 = in(reg32) a0, a1 = in(reg32) a1, a2 = in(reg32) a2, a3 = in(reg32) a3,
                            b = in(reg64) b, keep = in(reg32) keep, tb = const TRANS_B,),
                        super::Number::Bf16 => wgmma_asm!($n, "k16", "bf16", $registers, ", {tb}", d, [$first $($i)*],
                            a0 = in(reg32) a0, a1 = in(reg32) a1, a2 = in(reg32) a2, a3 = in(reg32) a3,
                            b = in(reg64) b, keep = in(reg32) keep, tb = const TRANS_B,),
                        super::Number::Tf32 => wgmma_asm!($n, "k8", "tf32", $registers, "", d, [$first $($i)*],
                            a0 = in(reg32) a0, a1 = in(reg32) a1, a2 = in(reg32) a2, a3 = in(reg32) a3,
                            b = in(reg64) b, keep = in(reg32) keep,),
                        super::Number::E4m3 => wgmma_asm!($n, "k32", "e4m3", $registers, "", d, [$first $($i)*],
                            a0 = in(reg32) a0, a1 = in(reg32) a1, a2 = in(reg32) a2, a3 = in(reg32) a3,
                            b = in(reg64) b, keep = in(reg32) keep,),
                    }
                }
            }

            #[inline(always)]
            fn pin(&mut self) {
                let d = self;
                // SAFETY: there is no instruction, and the registers keep their values.
                unsafe {
                    core::arch::asm!(
                        concat!("/* {", $first, "}", $(" {", $i, "}",)* " */"),
                        inout(reg32) d[$first], $(inout(reg32) d[$i],)*
                        options(nostack, preserves_flags),
                    );
                }
            }
        }
    };
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! registers {
    ($n:literal, $count:literal, $all:tt) => {
        impl sealed::Sealed for [f32; $count] {}
        impl Registers for [f32; $count] {}
    };
}

/// Implements the trait for each row, with the accumulators of this row and the rows before it.
macro_rules! all_sizes {
    ([$($before:tt)*]) => {};
    ([$($before:tt)*] $n:literal $count:literal: $($new:literal)*; $($rest:tt)*) => {
        registers! { $n, $count, [$($before)* $($new)*] }
        all_sizes! { [$($before)* $($new)*] $($rest)* }
    };
}

// The number of columns and of accumulators, then the accumulators that the previous row does not have.
all_sizes! { []
    8 4: 0 1 2 3;
    16 8: 4 5 6 7;
    24 12: 8 9 10 11;
    32 16: 12 13 14 15;
    40 20: 16 17 18 19;
    48 24: 20 21 22 23;
    56 28: 24 25 26 27;
    64 32: 28 29 30 31;
    72 36: 32 33 34 35;
    80 40: 36 37 38 39;
    88 44: 40 41 42 43;
    96 48: 44 45 46 47;
    104 52: 48 49 50 51;
    112 56: 52 53 54 55;
    120 60: 56 57 58 59;
    128 64: 60 61 62 63;
    136 68: 64 65 66 67;
    144 72: 68 69 70 71;
    152 76: 72 73 74 75;
    160 80: 76 77 78 79;
    168 84: 80 81 82 83;
    176 88: 84 85 86 87;
    184 92: 88 89 90 91;
    192 96: 92 93 94 95;
    200 100: 96 97 98 99;
    208 104: 100 101 102 103;
    216 108: 104 105 106 107;
    224 112: 108 109 110 111;
    232 116: 112 113 114 115;
    240 120: 116 117 118 119;
    248 124: 120 121 122 123;
    256 128: 124 125 126 127;
}
