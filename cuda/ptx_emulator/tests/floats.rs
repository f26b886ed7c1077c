//! Floating-point instructions and conversions against values worked out from the ISA.

use crate::common::{check, eval};
use ptx_emulator::Cause;

const ONE: u64 = 0x3f80_0000;
const NAN: u64 = 0x7fff_ffff;

#[test]
fn rounding_of_f32() {
    check(&[
        // 1 + 2^-24 lies in the middle between 1 and the next number.
        ("add.rn.f32 %r1, 0f3F800000, 0f33800000;", "%r1", ONE),
        ("add.rz.f32 %r1, 0f3F800000, 0f33800000;", "%r1", ONE),
        ("add.rm.f32 %r1, 0f3F800000, 0f33800000;", "%r1", ONE),
        ("add.rp.f32 %r1, 0f3F800000, 0f33800000;", "%r1", ONE + 1),
        ("sub.rz.f32 %r1, 0f3F800000, 0f00000001;", "%r1", ONE - 1),
        ("sub.rp.f32 %r1, 0f3F800000, 0f00000001;", "%r1", ONE),
        ("add.rm.f32 %r1, 0fBF800000, 0fB3800000;", "%r1", 0xbf80_0001),
        ("add.rz.f32 %r1, 0fBF800000, 0fB3800000;", "%r1", 0xbf80_0000),
        // Overflow: to infinity, or to the largest number where the rounding goes inwards.
        ("mul.rn.f32 %r1, 0f7F7FFFFF, 0f40000000;", "%r1", 0x7f80_0000),
        ("mul.rz.f32 %r1, 0f7F7FFFFF, 0f40000000;", "%r1", 0x7f7f_ffff),
        ("mul.rp.f32 %r1, 0fFF7FFFFF, 0f40000000;", "%r1", 0xff7f_ffff),
        ("mul.rm.f32 %r1, 0fFF7FFFFF, 0f40000000;", "%r1", 0xff80_0000),
        // Underflow.
        ("mul.rp.f32 %r1, 0f00000001, 0f3E800000;", "%r1", 1),
        ("mul.rm.f32 %r1, 0f80000001, 0f3E800000;", "%r1", 0x8000_0001),
        // Zero sums.
        ("add.rm.f32 %r1, 0f3F800000, 0fBF800000;", "%r1", 0x8000_0000),
        ("add.rn.f32 %r1, 0f3F800000, 0fBF800000;", "%r1", 0),
        ("add.rm.f32 %r1, 0f00000000, 0f00000000;", "%r1", 0),
        ("div.rz.f32 %r1, 0f3F800000, 0f40400000;", "%r1", 0x3eaa_aaaa),
        ("div.rp.f32 %r1, 0f3F800000, 0f40400000;", "%r1", 0x3eaa_aaab),
        ("div.rm.f32 %r1, 0f3F800000, 0fC0400000;", "%r1", 0xbeaa_aaab),
        ("div.rn.f32 %r1, 0f3F800000, 0f00000000;", "%r1", 0x7f80_0000),
        ("sqrt.rn.f32 %r1, 0f40000000;", "%r1", 0x3fb5_04f3),
        ("sqrt.rp.f32 %r1, 0f40000000;", "%r1", 0x3fb5_04f4),
        ("sqrt.rz.f32 %r1, 0f40000000;", "%r1", 0x3fb5_04f3),
        ("rcp.rn.f32 %r1, 0f40400000;", "%r1", 0x3eaa_aaab),
        ("rcp.rz.f32 %r1, 0f40400000;", "%r1", 0x3eaa_aaaa),
        // (1 + 3 * 2^-23)^2 - 1 = 6 * 2^-23 + 9 * 2^-46, of which two roundings would leave the first term alone.
        ("fma.rn.f32 %r1, 0f3F800003, 0f3F800003, 0fBF800000;", "%r1", 0x3540_0002),
        ("fma.rm.f32 %r1, 0f3F800001, 0f3F800001, 0f4B000000;", "%r1", 0x4b00_0001),
        ("fma.rp.f32 %r1, 0f3F800001, 0f3F800001, 0f4B000000;", "%r1", 0x4b00_0002),
    ]);
}

#[test]
fn rounding_of_f64() {
    check(&[
        ("add.rn.f64 %rd1, 0d3FF0000000000000, 0d3CA0000000000000;", "%rd1", 0x3ff0 << 48),
        ("add.rp.f64 %rd1, 0d3FF0000000000000, 0d3CA0000000000000;", "%rd1", (0x3ff0 << 48) + 1),
        ("add.rz.f64 %rd1, 0d3FF0000000000000, 0d8000000000000001;", "%rd1", (0x3ff0 << 48) - 1),
        ("div.rm.f64 %rd1, 0d3FF0000000000000, 0d4008000000000000;", "%rd1", 0x3fd5_5555_5555_5555),
        ("div.rp.f64 %rd1, 0d3FF0000000000000, 0d4008000000000000;", "%rd1", 0x3fd5_5555_5555_5556),
        ("sqrt.rz.f64 %rd1, 0d4000000000000000;", "%rd1", 0x3ff6_a09e_667f_3bcc),
        ("sqrt.rn.f64 %rd1, 0d4000000000000000;", "%rd1", 0x3ff6_a09e_667f_3bcd),
        (
            "fma.rp.f64 %rd1, 0d0000000000000001, 0d0000000000000001, 0d3FF0000000000000;",
            "%rd1",
            (0x3ff0 << 48) + 1,
        ),
    ]);
}

#[test]
fn flushing_saturation_and_nan() {
    check(&[
        ("add.f32 %r1, 0f00000001, 0f00000001;", "%r1", 2),
        ("add.ftz.f32 %r1, 0f00000001, 0f3F800000;", "%r1", ONE),
        ("mul.ftz.f32 %r1, 0f00800000, 0fBF000000;", "%r1", 0x8000_0000),
        ("add.sat.f32 %r1, 0f3F800000, 0f3F800000;", "%r1", ONE),
        ("sub.sat.f32 %r1, 0f00000000, 0f3F800000;", "%r1", 0),
        ("fma.rn.sat.f32 %r1, 0f7FC00000, 0f3F800000, 0f3F800000;", "%r1", 0),
        // The NaN of an f32 operation is canonical.
        ("add.f32 %r1, 0f7F800001, 0f3F800000;", "%r1", NAN),
        ("mul.f32 %r1, 0f7F800000, 0f00000000;", "%r1", NAN),
        ("min.f32 %r1, 0f7FC00000, 0f3F800000;", "%r1", ONE),
        ("max.f32 %r1, 0f3F800000, 0f7FC00000;", "%r1", ONE),
        ("max.f32 %r1, 0f7FC00000, 0f7FC00000;", "%r1", NAN),
        ("max.NaN.f32 %r1, 0f3F800000, 0f7FC00000;", "%r1", NAN),
        ("max.f32 %r1, 0f80000000, 0f00000000;", "%r1", 0),
        ("max.f32 %r1, 0f00000000, 0f80000000;", "%r1", 0),
        ("min.f32 %r1, 0f00000000, 0f80000000;", "%r1", 0x8000_0000),
        ("min.f64 %rd1, 0d7FF8000000000000, 0d3FF0000000000000;", "%rd1", 0x3ff0 << 48),
        // PTX leaves the NaN of a negation open.
        ("neg.f32 %r1, 0fFF801234;", "%r1", NAN),
        ("abs.f32 %r1, 0fFF801234;", "%r1", NAN),
        ("abs.f64 %rd1, 0d8000000000000000;", "%rd1", 0),
        // The sign is the first operand's.
        ("copysign.f32 %r1, 0f80000000, 0f3F800000;", "%r1", 0xbf80_0000),
        ("copysign.f64 %rd1, 0d0000000000000000, 0dBFF0000000000000;", "%rd1", 0x3ff0 << 48),
    ]);
}

#[test]
fn comparisons() {
    check(&[
        ("setp.lt.f32 %p1, 0f3F800000, 0f40000000;", "%p1", 1),
        ("setp.ne.f32 %p1, 0f7FC00000, 0f40000000;", "%p1", 0),
        ("setp.neu.f32 %p1, 0f7FC00000, 0f40000000;", "%p1", 1),
        ("setp.geu.f32 %p1, 0f7FC00000, 0f40000000;", "%p1", 1),
        ("setp.eq.f32 %p1, 0f80000000, 0f00000000;", "%p1", 1),
        ("setp.eq.ftz.f32 %p1, 0f00000001, 0f00000000;", "%p1", 1),
        ("setp.num.f64 %p1, 0d3FF0000000000000, 0d7FF8000000000000;", "%p1", 0),
        ("setp.nan.f64 %p1, 0d3FF0000000000000, 0d7FF8000000000000;", "%p1", 1),
        ("setp.eq.f32 %p1|%p2, 0f7FC00000, 0f40000000;", "%p2", 1),
        ("testp.infinite.f32 %p1, 0fFF800000;", "%p1", 1),
        ("testp.subnormal.f64 %p1, 0d0000000000000001;", "%p1", 1),
        ("testp.normal.f32 %p1, 0f00000000;", "%p1", 0),
    ]);
}

#[test]
fn conversions_between_integers() {
    check(&[
        ("cvt.u16.u32 %rs1, 0x12345678;", "%rs1", 0x5678),
        ("mov.b32 %r2, 0x80; cvt.s32.s8 %r1, %r2;", "%r1", 0xffff_ff80),
        ("mov.b32 %r2, 0x180; cvt.u32.u8 %r1, %r2;", "%r1", 0x80),
        ("cvt.s64.s32 %rd1, -5;", "%rd1", (-5i64) as u64),
        ("cvt.u64.u32 %rd1, -5;", "%rd1", 0xffff_fffb),
        ("cvt.sat.u8.s32 %r1, 300;", "%r1", 255),
        ("cvt.sat.u8.s32 %r1, -3;", "%r1", 0),
        ("cvt.sat.s8.s32 %r1, -300;", "%r1", 0xffff_ff80),
        ("cvt.s8.s32 %r1, 0x181;", "%r1", 0xffff_ff81),
    ]);
}

#[test]
fn conversions_of_floats() {
    check(&[
        ("cvt.rni.s32.f32 %r1, 0f40200000;", "%r1", 2),
        ("cvt.rni.s32.f32 %r1, 0f40600000;", "%r1", 4),
        ("cvt.rzi.s32.f32 %r1, 0fC0200000;", "%r1", (-2i32) as u32 as u64),
        ("cvt.rmi.s32.f32 %r1, 0fC0200000;", "%r1", (-3i32) as u32 as u64),
        ("cvt.rpi.s32.f32 %r1, 0f40200000;", "%r1", 3),
        ("cvt.rzi.u32.f32 %r1, 0fBF800000;", "%r1", 0),
        ("cvt.rzi.s32.f32 %r1, 0f7F800000;", "%r1", 0x7fff_ffff),
        ("cvt.rzi.u8.f32 %r1, 0f43FA0000;", "%r1", 255),
        // NaN is zero, but for 64 bits on either side the highest bit.
        ("cvt.rzi.s32.f32 %r1, 0f7FC00000;", "%r1", 0),
        ("cvt.rzi.u64.f32 %rd1, 0f7FC00000;", "%rd1", 1 << 63),
        ("cvt.rzi.s32.f64 %r1, 0d7FF8000000000000;", "%r1", 1 << 31),
        ("cvt.rn.f32.u32 %r1, 0x01000001;", "%r1", 0x4b80_0000),
        ("cvt.rp.f32.u32 %r1, 0x01000001;", "%r1", 0x4b80_0001),
        ("cvt.rz.f32.s32 %r1, 0xfefffffd;", "%r1", 0xcb80_0001),
        ("cvt.rn.f32.u64 %r1, 0xffffffffffffffff;", "%r1", 0x5f80_0000),
        ("cvt.rz.f32.u64 %r1, 0xffffffffffffffff;", "%r1", 0x5f7f_ffff),
        ("cvt.rn.f64.s64 %rd1, -1;", "%rd1", 0xbff0 << 48),
        ("cvt.f64.f32 %rd1, 0f3F800000;", "%rd1", 0x3ff0 << 48),
        ("cvt.rn.f32.f64 %r1, 0d3FF0000010000000;", "%r1", ONE),
        ("cvt.rp.f32.f64 %r1, 0d3FF0000010000000;", "%r1", ONE + 1),
        ("cvt.rz.f32.f64 %r1, 0d7FEFFFFFFFFFFFFF;", "%r1", 0x7f7f_ffff),
        ("cvt.rn.f32.f64 %r1, 0d7FEFFFFFFFFFFFFF;", "%r1", 0x7f80_0000),
        ("cvt.rn.ftz.f32.f64 %r1, 0d3800000000000000;", "%r1", 0),
        ("cvt.rmi.f32.f32 %r1, 0fBF000000;", "%r1", 0xbf80_0000),
        ("cvt.rni.f64.f64 %rd1, 0d3FE0000000000000;", "%rd1", 0),
        ("cvt.sat.f32.f32 %r1, 0f40000000;", "%r1", ONE),
        ("cvt.sat.f32.f32 %r1, 0f7FC00000;", "%r1", 0),
    ]);
}

#[test]
fn conversions_of_halves() {
    check(&[
        ("mov.b16 %rs1, 0x3c00; cvt.f32.f16 %r1, %rs1;", "%r1", ONE),
        ("mov.b16 %rs1, 0x8001; cvt.f32.f16 %r1, %rs1;", "%r1", 0xb380_0000),
        ("mov.b16 %rs1, 0xfbff; cvt.f32.f16 %r1, %rs1;", "%r1", 0xc77f_e000),
        ("mov.b16 %rs1, 0xfc00; cvt.f32.f16 %r1, %rs1;", "%r1", 0xff80_0000),
        ("mov.b16 %rs1, 0x7c01; cvt.f32.f16 %r1, %rs1;", "%r1", NAN),
        ("mov.b16 %rs1, 0x0001; cvt.f32.bf16 %r1, %rs1;", "%r1", 0x0001_0000),
        ("cvt.rn.f16.f32 %rs1, 0f3F800000;", "%rs1", 0x3c00),
        // 1 + 2^-11 and 1 + 3 * 2^-11 are each halfway between two `f16` numbers.
        ("cvt.rn.f16.f32 %rs1, 0f3F801000;", "%rs1", 0x3c00),
        ("cvt.rn.f16.f32 %rs1, 0f3F803000;", "%rs1", 0x3c02),
        ("cvt.rn.f16.f32 %rs1, 0f3F801001;", "%rs1", 0x3c01),
        ("cvt.rz.f16.f32 %rs1, 0f3F801FFF;", "%rs1", 0x3c00),
        ("cvt.rp.f16.f32 %rs1, 0f3F800001;", "%rs1", 0x3c01),
        ("cvt.rm.f16.f32 %rs1, 0fBF800001;", "%rs1", 0xbc01),
        // Halfway between the largest number and the next power of two rounds to infinity.
        ("cvt.rn.f16.f32 %rs1, 0f477FEFFF;", "%rs1", 0x7bff),
        ("cvt.rn.f16.f32 %rs1, 0f477FF000;", "%rs1", 0x7c00),
        ("cvt.rz.f16.f32 %rs1, 0fFF7FFFFF;", "%rs1", 0xfbff),
        ("cvt.rp.f16.f32 %rs1, 0fFF7FFFFF;", "%rs1", 0xfbff),
        ("cvt.rm.f16.f32 %rs1, 0fFF7FFFFF;", "%rs1", 0xfc00),
        // 2^-25 is halfway between zero and the smallest number.
        ("cvt.rn.f16.f32 %rs1, 0f33000000;", "%rs1", 0),
        ("cvt.rn.f16.f32 %rs1, 0fB3000001;", "%rs1", 0x8001),
        ("cvt.rp.f16.f32 %rs1, 0f00000001;", "%rs1", 1),
        ("cvt.rp.ftz.f16.f32 %rs1, 0f00000001;", "%rs1", 0),
        ("cvt.rn.f16.f32 %rs1, 0f387FF000;", "%rs1", 0x0400),
        ("cvt.rn.f16.f32 %rs1, 0fFFC00000;", "%rs1", 0x7fff),
        ("cvt.rn.bf16.f32 %rs1, 0f3F808000;", "%rs1", 0x3f80),
        ("cvt.rn.bf16.f32 %rs1, 0f3F818000;", "%rs1", 0x3f82),
        ("cvt.rn.bf16.f32 %rs1, 0f7F7FFFFF;", "%rs1", 0x7f80),
        ("cvt.rz.bf16.f32 %rs1, 0f7F7FFFFF;", "%rs1", 0x7f7f),
        ("cvt.rn.bf16.f32 %rs1, 0f80018000;", "%rs1", 0x8002),
        // The first operand is the upper half.
        ("cvt.rn.f16x2.f32 %r1, 0f3F800000, 0fC0000000;", "%r1", 0x3c00_c000),
        ("cvt.rn.bf16x2.f32 %r1, 0f3F800000, 0fC0000000;", "%r1", 0x3f80_c000),
    ]);
    let pair =
        |a: u32, b: u32, body: &str| format!("mov.b32 %r2, {a}; mov.b32 %r3, {b}; {body} %r1, %r2, %r3;");
    for (a, b, body, expected) in [
        // Halves are compared with their like: 1 and 2, -1 and -2.
        (0x3c00_bc00, 0x4000_c000, "max.f16x2", 0x4000_bc00),
        (0x3c00_bc00, 0x4000_c000, "min.f16x2", 0x3c00_c000),
        (0x7e00_0001, 0x3c00_8000, "max.f16x2", 0x3c00_0001),
        (0x7e00_8000, 0x3c00_0000, "max.NaN.f16x2", 0x7fff_0000),
        (0x7fc0_ff80, 0xff80_0001, "max.bf16x2", 0xff80_0001),
        (0x7fc0_0080, 0x7fc1_0081, "min.bf16x2", 0x7fff_0080),
    ] {
        assert_eq!(eval(&pair(a, b, body), "%r1").unwrap(), expected, "{body} {a:#x} {b:#x}");
    }
    check(&[("mov.b16 %rs2, 0x3c00; mov.b16 %rs3, 0x4000; max.f16 %rs1, %rs2, %rs3;", "%rs1", 0x4000)]);
    for body in ["cvt.f16.f32 %rs1, 0f3F800000;", "cvt.rm.bf16.f32 %rs1, %r1;", "cvt.rni.f32.f16 %r1, %rs1;"]
    {
        assert!(matches!(eval(body, "%p1"), Err(Cause::Unsupported(_))), "{body}");
    }
}

#[test]
fn approximations_are_within_their_bounds() {
    let value = |instruction: &str, x: f32| {
        let body = format!("{instruction} %r1, 0f{:08X};", x.to_bits());
        f64::from(f32::from_bits(eval(&body, "%r1").unwrap() as u32))
    };
    type Function = fn(f64) -> f64;
    let functions: [(&str, Function); 8] = [
        ("ex2.approx.f32", f64::exp2),
        ("lg2.approx.f32", f64::log2),
        ("rcp.approx.f32", f64::recip),
        ("sqrt.approx.f32", f64::sqrt),
        ("rsqrt.approx.f32", |x| 1.0 / x.sqrt()),
        ("sin.approx.f32", f64::sin),
        ("cos.approx.f32", f64::cos),
        ("tanh.approx.f32", f64::tanh),
    ];
    for (instruction, exact) in functions {
        for x in [0.1f32, 0.5, 1.0, 1.5, 2.0, 3.0] {
            let (got, want) = (value(instruction, x), exact(f64::from(x)));
            // The tightest bound the ISA gives to any of them is 2^-23 of the value.
            assert!((got - want).abs() <= want.abs() * 2f64.powi(-23), "{instruction} {x}: {got}, {want}");
        }
    }
    check(&[
        ("ex2.approx.ftz.f32 %r1, 0fC3000000;", "%r1", 0),
        ("ex2.approx.f32 %r1, 0fC3000000;", "%r1", 0x0020_0000),
        ("lg2.approx.f32 %r1, 0f00000000;", "%r1", 0xff80_0000),
        ("rsqrt.approx.f32 %r1, 0fBF800000;", "%r1", NAN),
        ("div.approx.f32 %r1, 0f40400000, 0f40000000;", "%r1", 0x3fc0_0000),
        // A divisor above 2^126 has no normal reciprocal, and the quotient is lost.
        ("div.approx.f32 %r1, 0f7F000000, 0f7F000000;", "%r1", 0),
        ("div.full.f32 %r1, 0f7F000000, 0f7F000000;", "%r1", ONE),
        ("rcp.approx.ftz.f64 %rd1, 0d4000000000000001;", "%rd1", 0x3fe0 << 48),
    ]);
}
