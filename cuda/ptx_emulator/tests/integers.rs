//! Integer, logic, shift and carry instructions against values worked out from the ISA.

use crate::common::{check, eval, undefined};
use ptx_emulator::Cause;

#[test]
fn arithmetic() {
    check(&[
        ("add.s32 %r1, -1, 2;", "%r1", 1),
        ("add.u16 %rs1, 0xffff, 2;", "%rs1", 1),
        ("add.s64 %rd1, 0x7fffffffffffffff, 1;", "%rd1", 1 << 63),
        ("sub.u32 %r1, 1, 2;", "%r1", 0xffff_ffff),
        ("mul.lo.s32 %r1, 0x10001, 0x10001;", "%r1", 0x20001),
        ("mul.hi.u32 %r1, 0xffffffff, 0xffffffff;", "%r1", 0xffff_fffe),
        ("mul.hi.s32 %r1, -1, 1;", "%r1", 0xffff_ffff),
        ("mul.hi.u64 %rd1, 0xffffffffffffffff, 0xffffffffffffffff;", "%rd1", u64::MAX - 1),
        ("mul.hi.s64 %rd1, 0x8000000000000000, 2;", "%rd1", u64::MAX),
        ("mul.hi.u16 %rs1, 0x8000, 4;", "%rs1", 2),
        ("mul.wide.s32 %rd1, -2, 3;", "%rd1", (-6i64) as u64),
        ("mul.wide.u32 %rd1, 0xfffffffe, 3;", "%rd1", 0x2_ffff_fffa),
        ("mul.wide.u16 %r1, 0xffff, 0xffff;", "%r1", 0xfffe_0001),
        ("mul.wide.s16 %r1, 0xffff, 0xffff;", "%r1", 1),
        ("mad.lo.s32 %r1, 3, 5, -16;", "%r1", 0xffff_ffff),
        ("mad.hi.u32 %r1, 0x80000000, 2, 5;", "%r1", 6),
        ("mad.wide.u32 %rd1, 0xffffffff, 2, 3;", "%rd1", 0x2_0000_0001),
        ("div.s32 %r1, -7, 2;", "%r1", (-3i32) as u32 as u64),
        ("div.u32 %r1, -7, 2;", "%r1", 0x7fff_fffc),
        ("rem.s32 %r1, -7, 2;", "%r1", 0xffff_ffff),
        ("rem.u64 %rd1, 100, 7;", "%rd1", 2),
        ("div.s32 %r1, 0x80000000, -1;", "%r1", 0x8000_0000),
        ("min.s32 %r1, -1, 1;", "%r1", 0xffff_ffff),
        ("min.u32 %r1, -1, 1;", "%r1", 1),
        ("max.s16 %rs1, -1, 1;", "%rs1", 1),
        ("add.u16x2 %r1, 0xffff0001, 0x00020003;", "%r1", 0x0001_0004),
        ("max.u16x2 %r1, 0xffff0001, 0x00020003;", "%r1", 0xffff_0003),
        ("max.s16x2 %r1, 0xffff0001, 0x00020003;", "%r1", 0x0002_0003),
        ("min.s16x2 %r1, 0xffff0001, 0x00020003;", "%r1", 0xffff_0001),
        ("min.relu.s32 %r1, 7, 3;", "%r1", 3),
        ("min.relu.s32 %r1, 7, -3;", "%r1", 0),
        ("max.relu.s32 %r1, -7, -3;", "%r1", 0),
        ("max.relu.s32 %r1, -7, 3;", "%r1", 3),
        ("max.relu.s16x2 %r1, 0xffff0001, 0xfffe0003;", "%r1", 3),
        ("min.relu.s16x2 %r1, 0x00050001, 0x0002ffff;", "%r1", 0x0002_0000),
        ("abs.s32 %r1, -5;", "%r1", 5),
        ("abs.s32 %r1, 0x80000000;", "%r1", 0x8000_0000),
        ("neg.s16 %rs1, 1;", "%rs1", 0xffff),
    ]);
}

#[test]
fn bits_and_shifts() {
    check(&[
        ("not.b16 %rs1, 0x0ff0;", "%rs1", 0xf00f),
        ("cnot.b32 %r1, 0;", "%r1", 1),
        ("xor.b64 %rd1, 0xff, 0xf0;", "%rd1", 0xf),
        ("shl.b32 %r1, 1, 31;", "%r1", 1 << 31),
        // Amounts from the width on give nothing but the sign.
        ("shl.b32 %r1, 1, 32;", "%r1", 0),
        ("shl.b64 %rd1, 1, 32;", "%rd1", 1 << 32),
        ("shr.u32 %r1, 0x80000000, 31;", "%r1", 1),
        ("shr.u32 %r1, 0x80000000, 32;", "%r1", 0),
        ("shr.s32 %r1, 0x80000000, 31;", "%r1", 0xffff_ffff),
        ("shr.s32 %r1, 0x80000000, 4000000000;", "%r1", 0xffff_ffff),
        ("shr.s16 %rs1, 0x8000, 1;", "%rs1", 0xc000),
        ("shf.l.wrap.b32 %r1, 0x80000001, 0x40000000, 33;", "%r1", 0x8000_0001),
        ("shf.l.clamp.b32 %r1, 0x80000001, 0x40000000, 33;", "%r1", 0x8000_0001),
        ("shf.r.wrap.b32 %r1, 0x80000001, 3, 1;", "%r1", 0xc000_0000),
        ("shf.r.clamp.b32 %r1, 7, 3, 40;", "%r1", 3),
        ("shf.l.wrap.b32 %r1, 7, 3, 0;", "%r1", 3),
        ("prmt.b32 %r1, 0x33221100, 0x77665544, 0x3340;", "%r1", 0x3333_4400),
        // The highest bit of a selector repeats the sign of its byte.
        ("prmt.b32 %r1, 0x0000807f, 0, 0x9898;", "%r1", 0xff00_ff00),
        ("popc.b64 %r1, 0xff000000000000ff;", "%r1", 16),
        ("clz.b32 %r1, 0;", "%r1", 32),
        ("clz.b64 %r1, 1;", "%r1", 63),
        ("brev.b32 %r1, 1;", "%r1", 1 << 31),
        ("bfind.u32 %r1, 0;", "%r1", 0xffff_ffff),
        ("bfind.s32 %r1, -9;", "%r1", 3),
        ("bfind.shiftamt.u32 %r1, 8;", "%r1", 28),
        ("bfe.u32 %r1, 0x12345678, 8, 8;", "%r1", 0x56),
        ("bfe.s32 %r1, 0x12348678, 8, 8;", "%r1", 0xffff_ff86),
        ("bfe.u32 %r1, 0xf0000000, 28, 8;", "%r1", 0xf),
        ("bfe.s32 %r1, 0x80000000, 28, 8;", "%r1", 0xffff_fff8),
        ("bfe.s32 %r1, 0x80000000, 28, 0;", "%r1", 0),
        ("bfi.b32 %r1, 0xff, 0, 28, 8;", "%r1", 0xf000_0000),
        ("bfi.b32 %r1, 0, 0xffffffff, 4, 8;", "%r1", 0xffff_f00f),
        // 0x96 is the exclusive or of three, 0xe8 their majority.
        ("lop3.b32 %r1, 0xf0, 0xcc, 0xaa, 0x96;", "%r1", 0x96),
        ("lop3.b32 %r1, 0xf0, 0xcc, 0xaa, 0xe8;", "%r1", 0xe8),
    ]);
}

#[test]
fn carries() {
    check(&[
        ("add.cc.u32 %r1, 0xffffffff, 1; addc.u32 %r2, 0, 0;", "%r2", 1),
        ("add.cc.u32 %r1, 1, 1; addc.u32 %r2, 0, 0;", "%r2", 0),
        ("add.cc.u32 %r1, -1, 1; addc.cc.u32 %r2, -1, 0; addc.u32 %r3, 5, 5;", "%r3", 11),
        ("sub.cc.u32 %r1, 0, 1; subc.u32 %r2, 5, 2;", "%r2", 2),
        ("sub.cc.u32 %r1, 1, 1; subc.u32 %r2, 5, 2;", "%r2", 3),
        ("sub.cc.u32 %r1, 0, 1; subc.cc.u32 %r2, 0, 0xffffffff; subc.u32 %r3, 9, 0;", "%r3", 8),
        ("sub.cc.u64 %rd1, 0, 1; subc.u64 %rd2, 0, 0;", "%rd2", u64::MAX),
        ("mad.lo.cc.u32 %r1, 0xffffffff, 2, 2; addc.u32 %r2, 0, 0;", "%r2", 1),
        ("add.cc.u32 %r1, -1, 1; madc.hi.u32 %r2, 0x80000000, 4, 7;", "%r2", 10),
        ("add.cc.u32 %r1, -1, 1; madc.lo.u32 %r2, 3, 4, 7;", "%r2", 20),
    ]);
    // After a subtraction the flag says that nothing was borrowed, as libNVVM's division of 128-bit integers counts on.
    check(&[
        ("sub.cc.u32 %r1, 1, 0; addc.u32 %r2, 0, 0;", "%r2", 1),
        ("sub.cc.u32 %r1, 0, 1; addc.u32 %r2, 0, 0;", "%r2", 0),
    ]);
    let mixed = "add.cc.u32 %r1, 1, 0; subc.u32 %r2, 0, 0;";
    assert!(matches!(eval(mixed, "%r2"), Err(Cause::Carry(_))));
    assert!(matches!(eval("addc.u32 %r2, 0, 0;", "%r2"), Err(Cause::Carry(_))));
}

#[test]
fn comparisons_and_selections() {
    check(&[
        ("setp.lt.s32 %p1, -1, 1;", "%p1", 1),
        ("setp.lt.u32 %p1, -1, 1;", "%p1", 0),
        ("setp.hi.u32 %p1, -1, 1;", "%p1", 1),
        ("setp.gt.s16 %p1, -1, -2;", "%p1", 1),
        ("setp.eq.b64 %p1, 5, 5;", "%p1", 1),
        ("setp.eq.s32 %p1|%p2, 1, 1;", "%p2", 0),
        ("setp.ne.s32 %p1, 1, 1; setp.eq.and.s32 %p2, 1, 1, !%p1;", "%p2", 1),
        ("setp.ne.s32 %p1, 1, 1; setp.eq.xor.s32 %p2, 1, 1, %p1;", "%p2", 1),
        ("setp.ne.s32 %p1, 1, 1; setp.ne.or.s32 %p2|%p3, 1, 1, %p1;", "%p3", 1),
        ("setp.eq.s32 %p1, 1, 1; not.pred %p2, %p1;", "%p2", 0),
        ("mov.pred %p1, -1; mov.pred %p2, 0; xor.pred %p3, %p1, %p2;", "%p3", 1),
        ("setp.eq.s32 %p1, 1, 2; selp.b32 %r1, 7, 9, %p1;", "%r1", 9),
        ("slct.b32.s32 %r1, 7, 9, -1;", "%r1", 9),
        ("slct.b32.f32 %r1, 7, 9, 0f80000000;", "%r1", 7),
    ]);
}

#[test]
fn undefined_bits_may_move_and_not_matter() {
    check(&[
        ("and.b64 %rd2, %rd1, -256; or.b64 %rd3, %rd2, 7; and.b64 %rd4, %rd3, 255;", "%rd4", 7),
        ("mov.b64 %rd2, {%r1, %r2}; mov.b64 {%r3, %r4}, %rd2; mov.b32 %r3, 1;", "%r3", 1),
        ("mov.b32 %r2, 5; mov.b64 %rd2, {%r1, %r2}; shr.u64 %rd3, %rd2, 32;", "%rd3", 5),
        // A known false takes the other operand's say.
        ("setp.eq.s32 %p1, 1, 2; setp.eq.b32 %p2, %r1, 0; and.pred %p3, %p1, %p2;", "%p3", 0),
        ("setp.eq.s32 %p1, 1, 2; selp.b32 %r2, %r1, 6, %p1;", "%r2", 6),
    ]);
    let unset = |name: &str| Err(Cause::Undefined { register: name.to_owned(), origin: String::new() });
    assert_eq!(eval("add.u32 %r2, %r1, 1;", "%r2"), Err(undefined()));
    assert_eq!(eval("mov.b32 %r2, %r1;", "%r2"), Err(undefined()));
    assert_eq!(eval("setp.eq.b32 %p1, %r1, 0; @%p1 bra L; L: mov.b32 %r1, 1;", "%r1"), unset("%p1"));
    assert_eq!(eval("ld.global.b32 %r1, [%rd1];", "%r1"), unset("%rd1"));
}
