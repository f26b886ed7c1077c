//! Memory and registers that nothing was written to: what may be done with them, and what is reported.

use crate::common::{eval, fault, module, run_and_ask, undefined};
use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Cause, Emulator, EmulatorError, PtxModule, UndefinedByte, UnwrittenRegisters};

/// What a kernel with this body leaves undefined of four numbers.
#[track_caller]
fn left_by(body: &str, out: &mut [u32; 4]) -> Option<UndefinedByte> {
    let declarations = ".shared .align 8 .b8 tile[64];";
    run_and_ask(&module(declarations, body), LaunchConfig::new(1, 1), out).unwrap()
}

/// The last block of a message that fills the one before: its 128 bytes must be zeros but for the length at their end.
/// libNVVM 13.5 made one store of the 128 that clear them, so that most of the block is what local memory held.
#[test]
fn a_block_of_which_one_byte_was_cleared() {
    let cleared = |stores: &str| {
        format!(
            ".local .align 16 .b8 block[128]; mov.b64 %rd1, block; cvta.local.u64 %rd2, %rd1;
            {stores}
            st.local.v2.b64 [%rd1+112], {{0, 1024}};
            mov.b32 %r1, 0x6a09e667; mov.b32 %r2, 0;
            LOOP: ld.u32 %r3, [%rd2];
            xor.b32 %r1, %r1, %r3; mul.lo.s32 %r1, %r1, 0x01000193; shf.l.wrap.b32 %r1, %r1, %r1, 7;
            add.s64 %rd2, %rd2, 4; add.s32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 32; @%p1 bra LOOP;
            st.global.b32 [%out+4], %r1;"
        )
    };
    let found = left_by(&cleared("st.local.b8 [%rd1], 0;"), &mut [0; 4]).unwrap();
    assert_eq!((found.index, found.bits, found.function.as_str()), (4, 0xff, "k"));
    assert!(found.to_string().ends_with("`st.global.b32 [%out+4], %r1;`"), "{found}");
    let all = (0..128).map(|at| format!("st.local.b8 [%rd1+{at}], 0;")).collect::<String>();
    assert_eq!(left_by(&cleared(&all), &mut [0; 4]), None);
}

#[test]
fn undefined_bytes_move_through_every_memory() {
    let mut out = [7u32; 4];
    // The second byte alone is defined.
    let copy = ".local .align 4 .b8 mine[4]; mov.b64 %rd1, mine; mov.b64 %rd2, tile;
        st.local.b8 [%rd1+1], 5; ld.local.b32 %r1, [%rd1]; st.shared.b32 [%rd2+8], %r1;
        ld.shared.b32 %r2, [%rd2+8]; st.global.b32 [%out+4], %r2;";
    let found = left_by(copy, &mut out).unwrap();
    assert_eq!((found.index, found.bits), (4, 0xff));
    assert_eq!(out, [7, 0x7ff5_05f5, 7, 7], "what is undefined reads as a pattern, which is a NaN");
    assert!(f32::from_bits(out[1] | 0xff00).is_nan());
    // Loaded again they are as undefined as before, and a later store makes them defined.
    let again = "ld.global.b32 %r3, [%out+4]; st.global.b32 [%out], %r3; st.global.b16 [%out+4], 1; st.global.b16 [%out+6], 2;";
    let found = left_by(&format!("{copy}{again}"), &mut out).unwrap();
    assert_eq!((found.index, out[1]), (0, 0x2_0001));
    let masked = "and.b32 %r3, %r1, 0xff00; st.global.b32 [%out+4], %r3; st.global.b32 [%out], 1;";
    assert_eq!(left_by(&format!("{copy}{masked}"), &mut out), None);
    assert_eq!(out, [1, 0x500, 7, 7]);
}

#[test]
fn undefined_bytes_go_through_calls() {
    let ptx = ".version 8.6\n.target sm_75\n.address_size 64
        .func (.param .align 4 .b8 back[8]) twice(.param .align 4 .b8 pair[8]) {
            .reg .b32 %r<4>;
            ld.param.b32 %r1, [pair]; ld.param.b32 %r2, [pair+4];
            st.param.b32 [back], %r2; st.param.b32 [back+4], %r1;
            ret;
        }
        .visible .entry k(.param .u64 out) {
            .reg .b32 %r<9>; .reg .b64 %rd<9>;
            ld.param.u64 %rd1, [out];
            { .param .align 4 .b8 given[8]; .param .align 4 .b8 got[8];
            st.param.b32 [given+4], 3;
            call.uni (got), twice, (given);
            ld.param.b32 %r1, [got]; ld.param.b32 %r2, [got+4]; }
            st.global.v2.b32 [%rd1], {%r1, %r2};
            ret;
        }";
    let mut out = [0u32; 2];
    let found = run_and_ask(ptx, LaunchConfig::new(1, 1), &mut out).unwrap().unwrap();
    assert_eq!((found.index, out), (4, [3, 0x7ff5_7ff5]));
}

#[test]
fn what_is_decided_by_undefined_bits_is_a_fault() {
    let body = |instruction: &str| {
        module(
            ".shared .align 8 .b8 tile[64];",
            &format!(
                ".local .align 8 .b8 mine[8]; mov.b64 %rd1, mine; mov.b64 %rd2, tile;
                ld.local.b64 %rd3, [%rd1]; ld.shared.b32 %r1, [%rd2];
                {instruction} E:"
            ),
        )
    };
    for (instruction, register, line) in [
        ("setp.eq.b32 %p1, %r1, 0; @%p1 bra E;", "%p1", "line 9 from shared memory at 0x400"),
        ("cvt.u32.u64 %r1, %rd3; setp.lt.u32 %p1, %r1, 5; @!%p1 bra E;", "%p1", "line 9"),
        ("ld.global.b8 %r1, [%rd3];", "%rd3", "line 9"),
        ("st.shared.b32 [%rd3], %r1;", "%rd3", "line 9"),
        ("shfl.sync.idx.b32 %r2, %r1, 0, 31, 1;", "%r1", "line 9"),
        ("atom.global.add.u32 %r2, [%out], %r1;", "%r1", "line 9"),
    ] {
        match fault(&body(instruction), LaunchConfig::new(1, 1), &mut [0u32; 4]).0 {
            Cause::Undefined { register: found, origin } => {
                assert_eq!(found, register, "{instruction}");
                assert!(origin.contains(line), "{instruction}: {origin}");
            }
            other => panic!("{instruction}: {other}"),
        }
    }
    let (cause, _) =
        fault(&body("atom.shared.add.u32 %r2, [%rd2], 1;"), LaunchConfig::new(1, 1), &mut [0u32; 4]);
    assert_eq!(cause, Cause::UndefinedMemory { space: "shared" });
}

#[test]
fn arithmetic_passes_undefined_bits_on() {
    // %r1 has 16 defined bits below 16 undefined ones; %r2 has none.
    let start = ".reg .b16 %h<3>; mov.b16 %h1, 0x1234; mov.b32 %r1, {%h1, %h2};";
    let known = [
        ("add.s32 %r3, %r1, 1; and.b32 %r3, %r3, 0xffff;", 0x1235),
        ("prmt.b32 %r3, %r1, 0, 0x4410;", 0x1234),
        ("bfe.u32 %r3, %r1, 4, 8;", 0x23),
        ("mul.lo.s32 %r3, %r1, 0x10000;", 0x1234_0000),
        ("lop3.b32 %r3, %r1, 0xffff, 0, 0xc0;", 0x1234),
        ("shf.l.wrap.b32 %r3, %r1, %r1, 16; and.b32 %r3, %r3, 0xffff0000;", 0x1234_0000),
        ("setp.eq.b32 %p1, %r1, 0x1235; selp.b32 %r3, 1, 2, %p1;", 2),
        ("setp.eq.b32 %p1, %r2, 0; selp.b32 %r3, 9, 9, %p1;", 9),
        ("mov.b32 %r3, 5; add.cc.u32 %r4, %r2, 1; addc.u32 %r4, 0, 0;", 5),
        ("mov.b32 %r4, 0; div.u32 %r4, 7, %r4; mov.b32 %r3, 6;", 6),
    ];
    for (body, expected) in known {
        assert_eq!(eval(&format!("{start}{body}"), "%r3"), Ok(expected), "{body}");
    }
    let unknown = [
        "add.s32 %r3, %r1, 1;",
        "mul.lo.s32 %r3, %r1, 3;",
        "add.cc.u32 %r4, %r2, 1; addc.u32 %r3, 0, 0;",
        "selp.b32 %r3, 1, %r2, 0;",
        "cvt.rn.f32.u32 %r3, %r1;",
        "mov.b32 %r4, 0; rem.u32 %r3, 7, %r4;",
    ];
    for body in unknown {
        assert_eq!(eval(&format!("{start}{body}"), "%r3"), Err(undefined()), "{body}");
    }
}

/// ptxas 13.0.88 does not extend its sign again.
#[test]
fn the_absolute_value_of_the_least_number_of_16_bits_is_undefined() {
    let shifted = |x: i16| {
        format!(
            "mov.b16 %rs1, {x}; abs.s16 %rs2, %rs1; shr.s16 %rs3, %rs2, 4; cvt.s32.s16 %r1, %rs3; st.global.b32 [%out], %r1;"
        )
    };
    assert!(left_by(&shifted(i16::MIN), &mut [0; 4]).is_some());
    let mut out = [0; 4];
    assert_eq!((left_by(&shifted(i16::MIN + 1), &mut out), out[0]), (None, 2047));
}

/// As above: ptxas 13.0.88 takes it for 32768.
#[test]
fn the_negation_of_the_least_number_of_16_bits_is_undefined() {
    let negated = |x: i16| {
        format!("mov.b16 %rs1, {x}; neg.s16 %rs2, %rs1; cvt.s32.s16 %r1, %rs2; st.global.b32 [%out], %r1;")
    };
    assert!(left_by(&negated(i16::MIN), &mut [0; 4]).is_some());
    let mut out = [0; 4];
    assert_eq!((left_by(&negated(i16::MIN + 1), &mut out), out[0]), (None, 32767));
}

/// A byte of an enum that one path alone loads, and a mask that keeps it right on the other: ptxas drops the mask.
const MASKED: &str = "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;
    ld.global.b8 %rs1, [%out+16]; and.b16 %rs2, %rs1, 1;
    L: cvt.u32.u16 %r3, %rs2; and.b32 %r4, %r3, 0xff00;
    mul.wide.u32 %rd1, %r1, 4; add.s64 %rd2, %out, %rd1; st.global.b32 [%rd2], %r4;";

fn launch(body: &str, registers: UnwrittenRegisters) -> (Result<(), EmulatorError>, [u32; 4]) {
    let module = PtxModule::parse(&module("", body)).unwrap();
    let mut emulator = Emulator::new(module).with_unwritten_registers(registers);
    // The fifth element is the one that is loaded; no thread writes it.
    let mut out = [1u32; 5];
    let address = out.as_mut_ptr().addr() as u64;
    // SAFETY: `out` outlives the launch, and no other code uses it.
    let result = unsafe {
        emulator.lend(&mut out);
        emulator.launch("k", LaunchConfig::new(1, 4), &[&address.to_le_bytes()])
    };
    (result, [out[0], out[1], out[2], out[3]])
}

#[test]
fn a_register_that_is_read_before_it_is_written_is_a_fault_even_behind_a_mask() {
    let Err(EmulatorError::Fault(fault)) = launch(MASKED, UnwrittenRegisters::Refused).0 else {
        panic!("the read of %rs2 went unseen");
    };
    assert_eq!(fault.cause, Cause::UnwrittenRegister { register: "%rs2".to_owned() });
    assert_eq!((fault.kernel.as_str(), fault.block, fault.thread), ("k", [0; 3], [0; 3]));
    assert!(fault.instruction.contains("cvt.u32.u16 %r3, %rs2"), "{fault}");
    for body in ["@%p2 bra E; E:", "shfl.sync.idx.b32 %r1, %r2, 0, 31, 15;", "st.global.b32 [%out], %r1;"] {
        let Err(EmulatorError::Fault(fault)) = launch(body, UnwrittenRegisters::Refused).0 else {
            panic!("{body}: no fault");
        };
        assert!(matches!(fault.cause, Cause::UnwrittenRegister { .. }), "{body}: {fault}");
    }
}

#[test]
fn registers_that_start_at_zero_are_written() {
    let body = format!("mov.b16 %rs2, 0; {MASKED}");
    let (result, out) = launch(&body, UnwrittenRegisters::Refused);
    result.unwrap();
    assert_eq!(out, [0; 4]);
}

#[test]
fn noise_in_registers_is_another_for_each_seed_and_shows_without_its_mask() {
    let unmasked = MASKED.replace("and.b32 %r4, %r3, 0xff00", "mov.b32 %r4, %r3");
    let of = |seed: u64| {
        let (result, out) = launch(&unmasked, UnwrittenRegisters::Noise(seed));
        result.unwrap();
        out
    };
    let [first, second] = [1, 2].map(of);
    assert_eq!((first, first[1]), (of(1), 1));
    assert!(
        first[0] != second[0] && first[0] != first[2] && first[0] > 1 && first[0] <= 0xffff,
        "{first:x?}"
    );
}
